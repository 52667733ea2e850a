// What the engine records of time: CPU time beside the time that passes, and all that a breakdown
// asks for, in every schedule.

#include "parallel/engine/stage_runner.h"
#include "parallel/plan/timeline.h"
#include "parallel/session/session_rank.h"
#include "parallel/simulation/breakdown.h"
#include "parallel/simulation/variants.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// The order in which a message-driven plan ran; other plans as they are.
Plan as_run(const Plan& plan, const Outcome& outcome) {
  if (plan.in_flight == 0) return plan;
  std::vector<std::vector<int>> orders;
  for (const RunResult& result : outcome.last) orders.push_back(result.order);
  return plan_as_it_ran(plan, orders);
}

/// Checks a run's records. Returns the CPU time of all computations, in seconds.
double check_recorded(const std::string& schedule, const Layout& layout) {
  Training training(gpt(small_gpt(false)), layout.stages);
  training.clip = layout.clip ? 1 : 0;
  SmallBatches batches(small_gpt(false));
  const auto plans = plans_of(schedule, layout);
  const Outcome outcome = run_by_engine(training, plans, batches);
  const VerifiedPlan plan = verify(as_run(plans[0].plan(), outcome));
  const Timeline timeline{plan.plan().ranks(), merged(outcome.last).records};
  double cpu = 0;
  for (const Record& record : timeline.records) {
    cpu += record.cpu;
    INFO(print(record.instruction));
    if (record.lane == Lane::message) CHECK(record.cpu == 0);
    CHECK(record.cpu >= 0);  // some systems' clocks advance in steps
  }

  const Breakdown time = breakdown(plan.plan(), timeline);
  for (const TimeParts& parts : time.ranks) CHECK(parts.total() == Approx(time.makespan));
  const TimeParts all = time.all();
  CHECK(all.waiting + all.point_to_point + all.collective ==
        Approx(timeline.bubble() * timeline.ranks * time.makespan));
  CHECK(critical_path(plan.plan(), timeline).time.total() == Approx(time.makespan));
  CHECK(on_own_cores(plan, timeline, {}).makespan() <= cpu * (1 + 1e-9));
  return cpu;
}

}  // namespace

TEST_CASE("what the engine records can be broken down, in every schedule", "[breakdown]") {
  double cpu = 0;
  for (const Schedule* schedule : schedules()) {
    INFO(schedule->name);
    for (bool clip : {false, true}) {
      if (clip && std::string(schedule->name) == "cyclic-v2") continue;  // it can't
      Layout layout{.stages = 3, .steps = 2};
      if (!schedule->cyclic) layout.width = 2, layout.microbatches = 3;
      layout.clip = clip;
      if (!schedule->cyclic) layout = fitted(schedule->name, layout);
      cpu += check_recorded(schedule->name, layout);
    }
  }
  for (int zero : {1, 2, 3}) {
    INFO("ZeRO level " << zero);
    cpu += check_recorded("data", {.stages = 2, .width = 2, .steps = 2, .zero = zero});
  }
  for (Setting setting : {Setting::one_device, Setting::pipeline, Setting::model, Setting::zero})
    cpu += check_recorded("cyclic-v2", {.stages = 3, .steps = 2, .setting = setting});
  CHECK(cpu > 0);
}

TEST_CASE("a thread that sleeps uses no core, and one that computes does", "[cores]") {
  const auto start = std::chrono::steady_clock::now();
  const double before = thread_seconds();
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  const double slept = thread_seconds() - before;
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  CHECK(slept >= 0);
  CHECK(slept < passed.count() / 2);
  while (thread_seconds() - before < slept + 0.002) {  // ends, as this computes
  }
}
