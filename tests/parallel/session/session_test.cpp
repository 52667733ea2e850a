// Session: whose ranks wait for one that works on its own, and what they have at
// its end.
// Not here: what a program's runs write (tests/examples/). Chapter 05.
#include "parallel/session/session.h"

#include <sched.h>
#include <stdlib.h>

#include <atomic>
#include <chrono>
#include <map>
#include <thread>

#include "autograd/cpu/cpu_backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/drawing/figure.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace paragrad::tests;

namespace {

namespace fs = std::filesystem;

struct Folder {
  std::string path = (fs::temp_directory_path() / "paragrad-XXXXXX").string();
  Folder() { PG_CHECK(::mkdtemp(path.data()), "can't make a folder like ", path); }
  ~Folder() { fs::remove_all(path); }
};

class SmallData : public RunData {
 public:
  Batches& training() override { return batches_; }
  Batches& validation(bool) override { return batches_; }
  std::vector<double> validation_weights(bool) const override { return {1, 1}; }

 private:
  SmallBatches batches_{small_gpt()};
};

constexpr int last_step = 2;

/// Two replicas, or a pipeline whose updates overlap.
Plan plan_of(const std::string& schedule, int first, int steps) {
  const bool data = schedule == "data";
  return make_plan(schedule, {.stages = data ? 1 : 2,
                              .width = data ? 2 : 1,
                              .microbatches = data ? 1 : 2,
                              .steps = steps,
                              .first = first});
}

/// Plans that a test sees, or spoils, as they are made.
class WatchedPlans : public Plans {
 public:
  using Make = std::function<Plan(int first, int steps)>;
  explicit WatchedPlans(Make make) : Plans("data", {}), make_(std::move(make)) {}

 private:
  Plan make(int first, int steps) const override { return make_(first, steps); }

  Make make_;
};

/// Of two replicas; `at_end` is what rank 0 does when it makes its first plan after the last
/// step: that is in the midst of the save.
SessionSettings settings_of(const Folder& folder, int rank, const std::function<void()>& at_end) {
  SessionSettings settings;
  settings.out = folder.path;
  settings.steps = last_step;
  settings.quiet = true;
  settings.engine.timeout = 1;
  settings.plans =
      std::make_shared<WatchedPlans>([rank, at_end, ended = false](int first, int steps) mutable {
        if (first == last_step && rank == 0 && !std::exchange(ended, true)) at_end();
        return plan_of("data", first, steps);
      });
  return settings;
}

/// Runs a session, and `afterwards` on each rank.
void run_session(const Folder& folder, const std::function<void()>& at_end,
                 const std::function<void(int rank)>& afterwards) {
  Training training(gpt(small_gpt(false)), 1);
  training.clip = 0;
  run_ranks(2, [&](Transport& transport) {
    set_compute_threads(1);
    SmallData data;
    SessionSettings settings = settings_of(folder, transport.rank(), at_end);
    run_session(training, transport, cpu_device(), data, settings);
    afterwards(transport.rank());
  });
}

}  // namespace

TEST_CASE("a save may take longer than a rank waits for another", "[session]") {
  Folder folder;
  auto slow_disk = [] { std::this_thread::sleep_for(std::chrono::seconds(3)); };
  CHECK_NOTHROW(run_session(folder, slow_disk, [](int) {}));
  CHECK(Checkpoint(fs::path(folder.path) / "checkpoint").step() == last_step);
}

TEST_CASE("the report is there when the first rank is through", "[session]") {
  Folder folder;
  std::atomic<int> reports = 0;
  run_session(
      folder, [] {}, [&](int) { reports += fs::exists(fs::path(folder.path) / "report.html"); });
  CHECK(reports == 2);
}

TEST_CASE("the report has the bytes of all steps, and says which ones the memory is of",
          "[session]") {
  Folder folder;
  run_session(
      folder, [] {}, [](int) {});
  const auto summary = nlohmann::json::parse(read_file(fs::path(folder.path) / "summary.json"));
  const double all = summary["bytes_sent"]["reductions"], of_a_rank = all / 2;
  const std::string page = read_file(fs::path(folder.path) / "report.html");
  for (int rank : {0, 1})
    CHECK_THAT(page, Contains(text("rank ", rank, ": ", bytes_text(of_a_rank), " of reductions")));
  CHECK_THAT(page, Contains("Memory by category, steps 2 to 2"));
}

TEST_CASE("the report's first line says that ranks share cores, and gives the time on own ones",
          "[session]") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  Folder folder;
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);  // threads inherit it
  run_session(
      folder, [] {}, [](int) {});
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  const auto summary = nlohmann::json::parse(read_file(fs::path(folder.path) / "summary.json"));
  CHECK(summary["shared_cores"] == nlohmann::json{{"ranks", 2}, {"cores", 1}});
  for (const char* version : {"measured", "simulated", "own_cores"}) {
    const nlohmann::json& time = summary["breakdown"][version];
    const double idle = time["waiting"].get<double>() + time["point_to_point"].get<double>() +
                        time["collective"].get<double>();
    const double makespan = time["makespan"];
    CHECK(makespan > 0);
    CHECK(idle == Approx(2 * makespan * summary["bubble"][version].get<double>()).margin(1e-9));
  }
  const std::string page = read_file(fs::path(folder.path) / "report.html");
  CHECK_THAT(page, Contains("</h1>\n<p class=\"note\">2 ranks share 1 core: the measured time, "));
  CHECK_THAT(page, Contains("as if each rank had a core of its own, steps 2 to 2; the critical "
                            "path takes "));
  CHECK_THAT(page, Contains("Where the time of all ranks goes, steps 2 to 2"));
}

TEST_CASE("a plan covers about a second, and in a delayed schedule some updates at least",
          "[session]") {
  for (const char* schedule : {"data", "gpipe", "1f1b"}) {
    INFO(schedule);
    const Plan plan = plan_of(schedule, 0, 1);
    CHECK(steps_in_a_second(0.01, plan, 4) == 100);
    CHECK(steps_in_a_second(0.3, plan, 4) == 3);
    CHECK(steps_in_a_second(5, plan, 4) == 1);
    CHECK(steps_in_a_second(0, plan, 4) == 1000);
  }
  for (const char* schedule : {"2bw", "pipedream", "cyclic-v1", "cyclic-v2"}) {
    INFO(schedule);
    const Plan plan = plan_of(schedule, 0, 1);
    CHECK(steps_in_a_second(0.01, plan, 4) == 100);
    CHECK(steps_in_a_second(0.3, plan, 4) == 4);
    CHECK(steps_in_a_second(5, plan, 4) == 4);
  }
}

namespace {

/// The longest plans that a run makes, by their first step: 1, 4, and what is found from the time
/// of these four, in which one microbatch takes seconds.
std::map<int, int> plans_of_slow_steps(const std::string& schedule) {
  class SlowData : public SmallData, public SmallBatches {
   public:
    SlowData() : SmallBatches(small_gpt()) {}
    Batches& training() override { return *this; }
    Tensor inputs(int micro, const DevicePtr& device) override {
      if (micro == 6) std::this_thread::sleep_for(std::chrono::milliseconds(2400));
      return SmallBatches::inputs(micro, device);
    }
  };
  Folder folder;
  std::map<int, int> plans;
  Training training(gpt(small_gpt(false)), schedule == "data" ? 1 : 2);
  training.clip = 0;
  run_ranks(2, [&](Transport& transport) {
    set_compute_threads(1);
    SlowData data;
    SessionSettings settings = settings_of(folder, transport.rank(), [] {});
    settings.steps = 9;
    settings.engine.timeout = 20;
    settings.plans = std::make_shared<WatchedPlans>([&](int first, int steps) {
      if (transport.rank() == 0) plans[first] = std::max(plans[first], steps);
      return plan_of(schedule, first, steps);
    });
    run_session(training, transport, cpu_device(), data, settings);
  });
  return plans;
}

}  // namespace

TEST_CASE("a run of slow steps has plans of one update, or goes on to its end, if they overlap",
          "[session]") {
  const auto one_by_one = plans_of_slow_steps("data");
  CHECK(one_by_one.at(5) == 1);
  CHECK(one_by_one.contains(6));
  CHECK_FALSE(plans_of_slow_steps("2bw").contains(6));
}

namespace {

/// Runs 2bw from a checkpoint, if one is given, to update `last`, or until it is interrupted.
/// Returns the updates that were made.
int run_2bw(const Folder& folder, const std::string& resume, int last, bool interrupted) {
  Training training(gpt(small_gpt(false)), 2);
  training.clip = 0;
  run_ranks(2, [&](Transport& transport) {
    set_compute_threads(1);
    SmallData data;
    SessionSettings settings = settings_of(folder, transport.rank(), [] {});
    settings.resume = resume;
    settings.run = nlohmann::json::object();
    settings.steps = 1000000;
    settings.stop_after = resume.empty() ? last : last - 7;
    settings.evaluate_every = 0;
    settings.engine.timeout = 20;
    settings.plans = std::make_shared<WatchedPlans>(
        [](int first, int steps) { return plan_of("2bw", first, steps); });
    // Asked before and after each of the two plans that measure, then in the endless one.
    settings.interrupted = [interrupted, asked = 0]() mutable {
      return interrupted && ++asked > 5;
    };
    run_session(training, transport, cpu_device(), data, settings);
  });
  return static_cast<int>(Checkpoint(fs::path(folder.path) / "checkpoint").step());
}

/// The contents of a checkpoint's files of weights and optimizer state.
std::map<std::string, std::string> state_in(const Folder& folder) {
  std::map<std::string, std::string> contents;
  for (const auto& entry : fs::directory_iterator(fs::path(folder.path) / "checkpoint"))
    if (entry.path().extension() == ".safetensors")
      contents[entry.path().filename()] = read_file(entry.path());
  return contents;
}

}  // namespace

TEST_CASE("a run that never drains can be interrupted, and has the bits of one that is resumed",
          "[session]") {
  Folder interrupted, whole, begun, resumed;
  const int steps = run_2bw(interrupted, "", 0, true);
  REQUIRE(steps > 7);
  CHECK(steps < 1000000);
  CHECK(run_2bw(whole, "", steps, false) == steps);
  CHECK(run_2bw(begun, "", 7, false) == 7);
  CHECK(run_2bw(resumed, begun.path, steps, false) == steps);
  REQUIRE(state_in(whole).size() > 1);
  CHECK(state_in(interrupted) == state_in(whole));
  CHECK(state_in(resumed) == state_in(whole));
}

TEST_CASE("ranks that are threads make each plan of a run once", "[session]") {
  Folder folder;
  std::map<std::pair<int, int>, int> made;  // by first step and steps
  const auto plans = std::make_shared<WatchedPlans>([&](int first, int steps) {
    ++made[{first, steps}];
    return make_plan("data", {.width = 4, .steps = steps, .first = first});
  });
  Training training(gpt(small_gpt(false)), 1);
  training.clip = 0;
  run_ranks(4, [&](Transport& transport) {
    set_compute_threads(1);
    SmallData data;
    SessionSettings settings = settings_of(folder, transport.rank(), [] {});
    settings.engine.timeout = 20;
    settings.steps = 5;
    settings.plans = plans;
    run_session(training, transport, cpu_device(), data, settings);
  });
  // Two segments: one update, of which the ranks prepare, and four; then the weights are saved.
  CHECK(made == std::map<std::pair<int, int>, int>{{{0, 1}, 1}, {{1, 4}, 1}, {{5, 1}, 1}});
}

TEST_CASE("the last few plans are remembered, and a plan that breaks a rule is not", "[session]") {
  int made = 0;
  bool broken = false;
  WatchedPlans plans([&](int first, int steps) {
    ++made;
    Plan plan = make_plan("data", {.width = 2, .steps = steps, .first = first});
    if (broken) plan.rows[0].pop_back();
    return plan;
  });
  const Plans::Shared first = plans.get(0, 1);
  CHECK(plans.get(0, 1) == first);
  CHECK(plans.evaluation(0, 3) == plans.evaluation(0, 3));
  CHECK(plans.evaluation(0, 3) != plans.evaluation(0, 2));
  CHECK(made == 1);
  for (int step = 1; step <= 4; ++step) plans.get(step, 1);
  CHECK(made == 5);
  CHECK(plans.get(0, 1) != first);  // made again
  CHECK(first->plan().steps == 1);  // whoever has it still can run it
  broken = true;
  CHECK_THROWS_AS(plans.get(7, 1), PlanError);
  broken = false;
  CHECK_NOTHROW(plans.get(7, 1));
}
