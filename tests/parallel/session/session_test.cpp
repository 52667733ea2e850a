// A session of two replicas: its save, during which ranks wait, and the report at its end.
// Not here: plans of a run (session_plans_test, draining_test), and what a program's runs write
// (tests/examples/). Chapter 05.
#include "parallel/session/session.h"

#include <sched.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/observers/metric_files.h"
#include "tests/catch.h"
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

}  // namespace

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
