// Which plans a session makes: how many updates they cover, how often they are made and verified.
// Not here: runs that never drain (draining_test), and plans that are wrong later
// (plans_check_test).

#include "autograd/cpu/cpu_backend.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_session.h"

using namespace plangrad::tests;

TEST_CASE("a plan covers about a second, and in a delayed schedule some updates at least",
          "[session]") {
  for (const char* schedule : {"data", "gpipe", "1f1b"}) {
    INFO(schedule);
    const Plan plan = plan_of(schedule, 0, 1);
    CHECK(steps_in_a_second(0.01, plan.overlaps_updates(), 4) == 100);
    CHECK(steps_in_a_second(0.3, plan.overlaps_updates(), 4) == 3);
    CHECK(steps_in_a_second(5, plan.overlaps_updates(), 4) == 1);
    CHECK(steps_in_a_second(0, plan.overlaps_updates(), 4) == 1000);
  }
  for (const char* schedule : {"2bw", "paci", "pipedream", "cyclic-v1", "cyclic-v2"}) {
    INFO(schedule);
    const Plan plan = plan_of(schedule, 0, 1);
    CHECK(steps_in_a_second(0.01, plan.overlaps_updates(), 4) == 100);
    CHECK(steps_in_a_second(0.3, plan.overlaps_updates(), 4) == 4);
    CHECK(steps_in_a_second(5, plan.overlaps_updates(), 4) == 4);
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
  RunFolder folder;
  std::map<int, int> plans;
  const Training training = small_training(schedule == "data" ? 1 : 2);
  run_ranks(2, [&](Transport& transport) {
    set_compute_threads(1);
    SlowData data;
    SessionSettings settings = settings_of(folder);
    settings.steps = 9;
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

TEST_CASE("a plan that breaks a rule after its first update trains none", "[session]") {
  RunFolder folder;
  const auto with_wrong_plans = [](int, SessionSettings& settings) {
    settings.steps = 9;
    settings.plans = std::make_shared<WatchedPlans>([](int first, int steps) {
      Plan plan = plan_of("paci", first, steps);
      plan.drift = 0;  // its header forgets what its backwards read
      return plan;
    });
  };
  CHECK_THROWS_WITH(run_sessions(small_training(2), folder, 2, with_wrong_plans),
                    Contains("same version: "));
  CHECK(std::filesystem::is_empty(folder.path));
}

TEST_CASE("ranks that are threads make each plan of a run once", "[session]") {
  RunFolder folder;
  std::map<std::pair<int, int>, int> made;  // by first step and steps
  const auto plans = std::make_shared<WatchedPlans>([&](int first, int steps) {
    ++made[{first, steps}];
    return make_plan("data", {.width = 4, .steps = steps, .first = first});
  });
  run_sessions(small_training(1), folder, 4, [&](int, SessionSettings& settings) {
    settings.steps = 5;
    settings.plans = plans;
  });
  // Two segments: one update, for which the ranks prepare, and four; then the weights are saved.
  // A plan of four updates is verified before.
  CHECK(made ==
        std::map<std::pair<int, int>, int>{{{0, 1}, 1}, {{0, 4}, 1}, {{1, 4}, 1}, {{5, 1}, 1}});
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
