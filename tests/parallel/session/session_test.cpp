// A session of two replicas: its save, during which ranks wait, and the report at its end.
// Not here: plans of a run (session_plans_test, draining_test), and what a program's runs write
// (tests/examples/). Chapter 05.
#include "parallel/session/session.h"

#include <sched.h>

#include <thread>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "tests/catch.h"
#include "tests/metric_lines.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;

namespace {

namespace fs = std::filesystem;

/// Two replicas train two updates. Rank 0 calls `at_end` when it makes its first plan after the
/// last one, which happens during the save.
void run_replicas(
    const RunFolder& folder, const std::function<void()>& at_end = [] {},
    const std::function<void(int rank)>& afterwards = [](int) {}) {
  auto with_plans = [&](int rank, SessionSettings& settings) {
    settings.engine.timeout = 1;
    settings.plans = std::make_shared<WatchedPlans>(
        [&, rank, last = settings.steps, ended = false](int first, int steps) mutable {
          if (first == last && rank == 0 && !std::exchange(ended, true)) at_end();
          return plan_of("data", first, steps);
        });
  };
  run_sessions(small_training(1), folder, 2, with_plans, afterwards);
}

/// Ends a plan at each update, and renames the run's folder when its first save is committed, until
/// the third update or the run's end. Hears warnings and saves.
class Renaming : public RunObserver {
 public:
  Renaming(const RunFolder& folder, bool for_ever, std::vector<std::string>& heard)
      : folder_(folder), for_ever_(for_ever), heard_(heard) {}
  const char* name() const override { return "renaming"; }
  Border next_border(int done) const override { return {done + 1}; }
  void plan_ended(Lead&, const PlanEnd& plan) override {
    if (plan.done == 3 && !for_ever_) fs::rename(folder_.path + ".renamed", folder_.path);
  }
  void told(Lead&, const Told& told) override {
    if (told.kind == Told::warning) heard_.push_back(told.what);
  }
  void saved(Lead&, int step) override {
    heard_.push_back(text("saved ", step));
    if (step == 1) fs::rename(folder_.path, folder_.path + ".renamed");
  }

 private:
  const RunFolder& folder_;
  const bool for_ever_;
  std::vector<std::string>& heard_;
};

/// What rank 0 heard of four updates, each of which is saved.
std::vector<std::string> heard_of_renamed_run(const RunFolder& folder, bool for_ever) {
  std::vector<std::string> heard;
  run_sessions(small_training(1), folder, 2, [&](int, SessionSettings& settings) {
    settings.steps = 4;
    settings.save_minutes = 1e-9;
    settings.observers = only<Renaming>(folder, for_ever, heard);
  });
  return heard;
}

}  // namespace

TEST_CASE("a save whose folder was renamed is told, and the next one tries again", "[session]") {
  const RunFolder folder;
  const std::vector<std::string> heard = heard_of_renamed_run(folder, false);
  const std::string lost =
      text("step 2 is NOT SAVED: ", folder.path, "/plangrad.lock or its folder was removed or ",
           "renamed. The run goes on; its next save tries again");
  CHECK(heard == std::vector<std::string>{"saved 1", lost, "saved 3", "saved 4"});
  CHECK(Checkpoint(folder / "checkpoint").step() == 4);
}

TEST_CASE("a run whose folder is gone at its last save fails", "[session]") {
  const RunFolder folder;
  CHECK_THROWS_WITH(heard_of_renamed_run(folder, true),
                    Contains(folder.path + "/plangrad.lock or its folder was removed or renamed"));
  CHECK(Checkpoint(folder.path + ".renamed/checkpoint").step() == 1);
  fs::remove_all(folder.path + ".renamed");
}

TEST_CASE("a save may take longer than a rank waits for another", "[session]") {
  RunFolder folder;
  auto slow_disk = [] { std::this_thread::sleep_for(std::chrono::seconds(3)); };
  CHECK_NOTHROW(run_replicas(folder, slow_disk));
  CHECK(Checkpoint(folder / "checkpoint").step() == 2);
}

TEST_CASE("the report is there when the first rank is through", "[session]") {
  RunFolder folder;
  std::atomic<int> reports = 0;
  run_replicas(
      folder, [] {}, [&](int) { reports += fs::exists(folder / "summary.json"); });
  CHECK(reports == 2);
}

TEST_CASE("the report has the bytes of all steps, and says which ones the memory is of",
          "[session]") {
  RunFolder folder;
  run_replicas(folder);
  const auto summary = nlohmann::json::parse(read_file(folder / "summary.json"));
  const double all = summary["bytes_sent"]["reductions"];
  double by_update = 0;
  for (const nlohmann::json& line : metrics_of(folder / "metrics.jsonl"))
    by_update += line.value("bytes_sent", 0.0);
  CHECK(all > 0);
  CHECK(all == by_update);
  CHECK(summary["recorded_updates"] == std::vector<int>{2, 2});
}

TEST_CASE("the summary says that ranks share cores, and gives the time on own ones", "[session]") {
  cpu_set_t before, one;
  REQUIRE(sched_getaffinity(0, sizeof before, &before) == 0);
  CPU_ZERO(&one);
  for (int core = 0; CPU_COUNT(&one) == 0; ++core)
    if (CPU_ISSET(core, &before)) CPU_SET(core, &one);
  RunFolder folder;
  REQUIRE(sched_setaffinity(0, sizeof one, &one) == 0);  // threads inherit it
  run_replicas(folder);
  REQUIRE(sched_setaffinity(0, sizeof before, &before) == 0);
  const auto summary = nlohmann::json::parse(read_file(folder / "summary.json"));
  CHECK(summary["shared_cores"] == nlohmann::json{{"ranks", 2}, {"cores", 1}});
  for (const char* version : {"measured", "simulated", "own_cores"}) {
    const nlohmann::json& time = summary["breakdown"][version];
    const double idle = time["waiting"].get<double>() + time["point_to_point"].get<double>() +
                        time["collective"].get<double>();
    const double makespan = time["makespan"];
    CHECK(makespan > 0);
    CHECK(idle == Approx(2 * makespan * summary["bubble"][version].get<double>()).margin(1e-9));
  }
}
