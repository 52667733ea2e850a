// Runs that go wrong: every rank ends with a report that says why, and none waits for ever.
// Not here: lost processes (mpi/), plans that break a rule (verify).
#include <condition_variable>
#include <regex>

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/parallel/support/far_transport.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// Does something before the inputs of one microbatch are there.
class FaultyBatches : public SmallBatches {
 public:
  FaultyBatches(int micro, std::function<void()> fault)
      : SmallBatches(small_gpt()), micro_(micro), fault_(std::move(fault)) {}
  Tensor inputs(int micro, const DevicePtr& device) override {
    if (micro == micro_) fault_();
    return SmallBatches::inputs(micro, device);
  }

 private:
  int micro_;
  std::function<void()> fault_;
};

/// Where a rank stays until another one has given up.
class Stop {
 public:
  /// ends: how many calls of end() it takes
  explicit Stop(int ends = 1) : left_(ends) {}
  void wait() {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::minutes(1), [&] { return left_ <= 0; });
  }
  void end() {
    std::lock_guard lock(mutex_);
    --left_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int left_;
};

/// What a run that failed left.
struct Failed {
  std::string report;
  std::map<std::pair<int, int>, int> newest;  ///< version, by (rank, stage)

  /// The report of one rank, with the plan's row below it.
  std::string of(int rank) const {
    std::string lines = "\n" + report, begin = text("\nrank ", rank, ": ");
    std::size_t from = lines.find(begin);
    if (from == lines.npos) return "";
    return lines.substr(from + 1, lines.find("\nrank ", from + 1) - from - 1);
  }
  /// Whether a line says so, however long the rank had waited.
  bool says(const std::string& begin, const std::string& end) const {
    return std::regex_search(report, std::regex(begin + " [0-9.]+ s " + end));
  }
};

/// Runs plan_of(rank), a plan for each rank: the same, if nothing else is tested.
using PlanOf = std::function<const VerifiedPlan&(int)>;
Failed run_plans(const Training& training, int ranks, const PlanOf& plan_of, Batches& batches,
                 double timeout = 20, Stop* stop = nullptr) {
  Failed failed;
  std::mutex mutex;
  auto body = [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {AllReduce::scatter_reduce, timeout});
    try {
      engine.run(plan_of(transport.rank()), batches);
    } catch (...) {
      if (stop) stop->end();
      std::lock_guard lock(mutex);
      for (auto& [stage, store] : engine.stores())
        failed.newest[{transport.rank(), stage}] = store.newest();
      throw;
    }
  };
  failed.report = error_of([&] { run_ranks(ranks, body); });
  return failed;
}

Failed run(const Training& training, const VerifiedPlan& plan, Batches& batches,
           double timeout = 20, Stop* stop = nullptr) {
  auto same = [&](int) -> const VerifiedPlan& { return plan; };
  return run_plans(training, plan.plan().ranks(), same, batches, timeout, stop);
}

VerifiedPlan plan_of(const std::string& schedule, const Layout& layout) {
  return verify(make_plan(schedule, layout));
}

/// The error of one rank that runs `plan` on its own.
std::string refusal(const Training& training, const VerifiedPlan& plan) {
  SmallBatches batches(small_gpt());
  return run_plans(
             training, 1, [&](int) -> const VerifiedPlan& { return plan; }, batches)
      .report;
}

}  // namespace

TEST_CASE("a rank that throws ends the run, and every rank reports", "[failures]") {
  for (const char* schedule : {"data", "gpipe", "1f1b", "2bw", "pipedream"})
    for (int width : {1, 3}) {
      if (schedule == std::string("data") && width == 1) continue;
      Layout layout{.stages = 2, .width = width, .microbatches = 4, .steps = 2};
      VerifiedPlan plan = plan_of(schedule, layout);
      FaultyBatches batches(3, [] { throw Error("the file is empty"); });
      Failed failed = run(small_training(2), plan, batches);
      INFO(schedule << " W" << width << "\n" << failed.report);
      int culprit = schedule == std::string("pipedream") ? 3 % width * 2 : 0;
      CHECK_THAT(failed.report, StartsWith(text("rank ", culprit, ": the file is empty\n")));
      for (int rank = 0; rank < plan.plan().ranks(); ++rank) {
        if (rank == culprit) continue;
        CHECK_THAT(
            failed.of(rank),
            Contains(text("; stopped by rank ", culprit, "\n  rank ", rank, ":")) && Contains("["));
      }
    }
}

TEST_CASE("a rank that is late is named, with where it was", "[failures]") {
  Stop stop(2);  // ranks 1 and 2: whichever gives up first ends the other's wait
  FaultyBatches batches(2, [&] { stop.wait(); });
  VerifiedPlan plan = plan_of("gpipe", {.stages = 3, .microbatches = 3, .steps = 1});
  Failed failed = run(small_training(3), plan, batches, 4, &stop);  // rank 2 waits by then
  INFO(failed.report);
  CHECK(failed.says("^rank [12]: waited", "for"));
  CHECK(failed.says("rank 1: waited", "for 0a2>1 of rank 0; rank 0 was at 0F2v0"));
  CHECK_THAT(failed.of(1), Contains("\n  rank 1:") && Contains(" [1F2v0] "));
  CHECK(failed.says("rank 2: waited", "for 1a2>2 of rank 1; rank 1 was at 1F2v0"));
  CHECK(std::regex_search(failed.of(0), std::regex("; stopped by rank [12]\n  rank 0: ")));
}

TEST_CASE("a rank that is late and far away is named, with when it was heard of", "[failures]") {
  Stop stop;
  FaultyBatches batches(0, [&] { stop.wait(); });
  VerifiedPlan plan = plan_of("gpipe", {.stages = 2, .microbatches = 1, .steps = 1});
  Training training = small_training(2);
  auto body = [&](Transport& near) {
    FarTransport far(near);
    try {
      Engine(training, far, cpu_device(), {AllReduce::scatter_reduce, 1}).run(plan, batches);
    } catch (...) {
      stop.end();
      throw;
    }
  };
  CHECK_THROWS_WITH(run_ranks(2, body), Contains("for 0a0>1 of rank 0; rank 0 was last heard of, "
                                                 "100 s ago, at 0F0v0"));
}

TEST_CASE("a rank that is late for a sum is named", "[failures]") {
  Stop stop;
  FaultyBatches batches(2, [&] { stop.wait(); });
  VerifiedPlan plan = plan_of("data", {.stages = 1, .width = 3, .microbatches = 1, .steps = 1});
  Failed failed = run(small_training(1), plan, batches, 1, &stop);
  INFO(failed.report);
  // One of the two says so; when the other one does, rank 2 may have been let go already.
  CHECK(failed.says("rank [01]: waited", "for 0Rv1@0 of rank 2; rank 2 was at 0F2v0"));
  CHECK_THAT(failed.of(0), Contains("[0Sv1]"));
}

TEST_CASE("a rank that is late for a partial sum, a turn or weights is named", "[failures]") {
  struct Late {
    const char* plan;
    int micro;
    const char *begin, *end;
  };
  const char* ring =
      "stages 1 per_step 2 steps 1 keep 1\n"
      "0F0v0 0B0v0 0p0>1 0p1<1 0Sv1\n"
      "0F1v0 0p0<0 0B1v0 0R1 0p1>0 0Sv1\n";
  // Two ranks: of three, another one that waits for the late one, too, may be the first to say so.
  Layout cyclic{.stages = 2, .steps = 2};
  const std::string data = print(make_plan("cyclic-v2", cyclic));
  cyclic.setting = Setting::zero;
  const std::string zero = print(make_plan("cyclic-v2", cyclic));
  const Late cases[]{
      {ring, 0, "rank 1: waited", "for 0p0>1 of rank 0; rank 0 was at 0F0v0"},
      {ring, 1, "rank 0: waited", "for 0p1>0 of rank 1; rank 1 was at 0F1v0"},
      {data.c_str(), 2, "rank 1: waited", "for 0t3>1 of rank 0; rank 0 was at 0F2v0"},
      {zero.c_str(), 2, "rank 1: waited", "for 0wv0<1 of rank 0; rank 0 was at 0F2v0"}};
  for (const Late& late : cases) {
    Stop stop;
    FaultyBatches batches(late.micro, [&] { stop.wait(); });
    VerifiedPlan plan = verify(parse(late.plan));
    Failed failed = run(small_training(plan.plan().stages), plan, batches, 1, &stop);
    INFO(failed.report);
    CHECK(failed.says(late.begin, late.end));
  }
}

TEST_CASE("a rank that computes, or others that get on, are waited for", "[failures]") {
  // Rank 0 waits for its first gradient while all others pass one cell after the other, and rank 1
  // for a computation that takes several deadlines.
  const VerifiedPlan plan = plan_of("1f1b", {.stages = 4, .microbatches = 4, .steps = 1});
  const Training training = small_training(4);
  SmallBatches batches(small_gpt());
  auto slowly = [](const Plan&, const Instruction& x, auto) {
    const bool is_first = x == forward(0, 0, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(is_first ? 1500 : 100));
    return false;
  };
  CHECK_NOTHROW(run_ranks(4, [&](Transport& transport) {
    set_compute_threads(1);
    Engine(training, transport, cpu_device(), {.timeout = 0.4, .prolong = slowly})
        .run(plan, batches);
  }));
}

TEST_CASE("ranks with different plans do not wait for ever", "[failures]") {
  VerifiedPlan two = plan_of("1f1b", {.stages = 2, .microbatches = 2, .steps = 1});
  VerifiedPlan three = plan_of("1f1b", {.stages = 2, .microbatches = 3, .steps = 1});
  auto plan_of_rank = [&](int rank) -> const VerifiedPlan& { return rank == 0 ? two : three; };
  SmallBatches batches(small_gpt());
  Failed failed = run_plans(small_training(2), 2, plan_of_rank, batches, 1);
  INFO(failed.report);
  CHECK(failed.says("^rank 1: waited", "for 0a2>1 of rank 0; rank 0 was "));
}

TEST_CASE("ranks whose messages differ in size are told", "[failures]") {
  class UnequalBatches : public SmallBatches {
   public:
    UnequalBatches() : SmallBatches(small_gpt()) {}
    /// Receivers believe this; what is sent follows from the inputs themselves.
    Shape shape(int) const override { return {3, small_gpt().context}; }
  } batches;
  VerifiedPlan plan = plan_of("gpipe", {.stages = 2, .microbatches = 1, .steps = 1});
  Failed failed = run(small_training(2), plan, batches);
  CHECK_THAT(failed.report, Contains("sent 1024 bytes") && Contains("expects 1536"));
  CHECK(!failed.of(0).empty());
  CHECK(!failed.of(1).empty());
}

TEST_CASE("a gradient that is not finite stops every rank before its step", "[failures]") {
  for (const auto& [schedule, make] : ordinary_schedules())
    for (bool clip : {false, true})
      for (bool tied : {false, true}) {
        Layout layout{2, 2, 2, 5, 0, false, clip, tied};
        Training training = small_training(2, tied, clip ? 1 : 0);
        training.learning_rate = {1e30, 1e30, 0, 10};
        VerifiedPlan plan = plan_of(schedule, layout);
        SmallBatches batches(small_gpt());
        Failed failed = run(training, plan, batches);
        INFO(schedule << (clip ? " clip" : "") << (tied ? " tied" : "") << "\n" << failed.report);
        for (int rank = 0; rank < plan.plan().ranks(); ++rank) CHECK(!failed.of(rank).empty());
        // Version 1 has the large weights; 2BW reads it a step later than the others.
        int stopped = schedule == "2bw" ? 3 : 2;
        CHECK_THAT(failed.report, Contains(text(": step ", stopped, ": the gradient's norm is ")));
        REQUIRE(!failed.newest.empty());
        for (const auto& [name, newest] : failed.newest) CHECK(newest < stopped);
      }
}

TEST_CASE("a plan that does not fit the run is refused", "[failures]") {
  VerifiedPlan two_ranks = plan_of("data", {.stages = 1, .width = 2});
  CHECK_THAT(refusal(small_training(1), two_ranks),
             Contains("the plan is for 2 ranks, this run has 1"));
  VerifiedPlan two_stages = plan_of("data", {.stages = 2});
  CHECK_THAT(refusal(small_training(3), two_stages),
             Contains("the plan has 2 stages, the model is cut into 3"));
  CHECK_THAT(refusal(small_training(2, false, 1), two_stages),
             Contains("gradients are clipped, but the plan is made without clipping; make it by "
                      "plan show or lower ... --clip (clip 1 in a header of rows), or"));
  CHECK_THAT(refusal(small_training(2, true, 1), two_stages),
             Contains("--clip --tied (clip 1 tied 0,1 in a header of rows), or train with --clip 0 "
                      "--untied"));
  VerifiedPlan clips = plan_of("data", {.stages = 2, .clip = true});
  CHECK_THAT(refusal(small_training(2), clips),
             Contains("gradients are not clipped, but the plan is made with clipping; make it by "
                      "plan show or lower ... without"));
  CHECK_THAT(refusal(small_training(2, true), two_stages),
             Contains("0,1; make it by plan show or lower ... --tied (tied 0,1 in a header "
                      "of rows), or"));
  VerifiedPlan tied = plan_of("data", {.stages = 2, .tied = true});
  CHECK_THAT(refusal(small_training(2), tied), Contains("which has none; make it by"));
}

TEST_CASE("plans must follow each other", "[failures]") {
  Training training = small_training(1);
  SmallBatches batches(small_gpt());
  Layout layout{.stages = 1, .steps = 2};
  VerifiedPlan first = plan_of("gpipe", layout);
  layout.first = 5;
  VerifiedPlan later = plan_of("gpipe", layout);
  auto body = [&](Transport& transport) {
    Engine engine(training, transport, cpu_device(), {});
    engine.run(first, batches);
    CHECK_THROWS_WITH(engine.run(later, batches),
                      Contains("begins with version 5 of the weights; stage 0 has version 2"));
    CHECK_THROWS_WITH(Engine(training, transport, cpu_device(), {AllReduce::ring, 0}),
                      Contains("the timeout of a wait is 0 s"));
  };
  run_ranks(1, body);
}
