// make_endless: schedules without end, and that each length of them is the schedule's own plan.
// Not here: what bars mean (endless_test of plan/), and broken ones (repeat_test).
#include "parallel/plan/plan.h"

#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/endless_cases.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/sanitized.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

/// Checks that a plan of one length is the schedule's own, and verifies with the facts of all.
void check_length(const EndlessCase& endless, const Facts& of_all, const Plan& plan, int bodies) {
  Layout layout = endless.layout;
  const bool per_micro = find_schedule(endless.schedule).updates_per_microbatch;
  const int updates = per_micro ? layout.microbatches : 1;  // of each of the layout's steps
  if (plan.steps % updates > 0) return;
  layout.steps = plan.steps / updates;
  CHECK(plan == make_plan(endless.schedule, layout));
  const Facts facts = verify(plan).facts();
  CHECK(facts.capacity <= of_all.capacity);
  if (bodies == 0) return;  // a plan that is too short to fill
  CHECK(facts.staleness == of_all.staleness);
  CHECK(facts.drift == of_all.drift);
  CHECK(facts.live_versions == of_all.live_versions);
  CHECK(facts.peak_microbatches == of_all.peak_microbatches);
  CHECK(facts.peak_inputs == of_all.peak_inputs);
  CHECK(facts.fresh_reads == of_all.fresh_reads);
}

}  // namespace

TEST_CASE("endless: PipeDream-2BW as it was checked by hand", "[endless]") {
  const auto plan = make_endless("2bw", {.stages = 3, .microbatches = 3});
  REQUIRE(plan);
  CHECK(print(*plan) == golden("2bw_endless"));
  CHECK(print(unrolled(*plan, 1)) == golden("2bw"));
}

TEST_CASE("endless: each length of every schedule is the schedule's own plan", "[endless]") {
  int cases = 0, plans = 0;
  for (const EndlessCase& endless : fewer(endless_cases())) {
    INFO(describe(endless));
    const auto found = make_endless(endless.schedule, endless.layout);
    REQUIRE(found);
    const Facts of_all = verify(*found).facts();
    for (int bodies : {0, 1, 2, 3, 7})
      if (const auto plan = unrolled_if_any(*found, bodies)) {
        INFO(bodies << " bodies");
        check_length(endless, of_all, *plan, bodies);
        ++plans;
      }
    ++cases;
  }
  CHECK(cases > (sanitized ? 100 : 500));
  CHECK(plans > 4 * cases);
}

TEST_CASE("endless: a message-driven schedule's order depends on timing", "[endless]") {
  Layout layout{.stages = 3, .microbatches = 4};
  int driven = 0;
  for (const Schedule* schedule : schedules()) {
    if (schedule->has_order) continue;
    CHECK_FALSE(make_endless(schedule->name, layout));
    ++driven;
  }
  CHECK(driven > 0);
}

TEST_CASE("endless: setting model repeats after lcm(1..N) / N steps, and stops at 12",
          "[endless]") {
  auto period_of = [](int stages) {
    const auto plan = make_endless("cyclic-v2", {.stages = stages, .setting = Setting::model});
    return plan ? plan->period : 0;
  };
  CHECK(period_of(2) == 1);
  CHECK(period_of(3) == 2);
  CHECK(period_of(4) == 3);
}
