// Evaluations between plans: every rank computes losses with the newest weights, and training goes
// on as if there had been none.
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

TEST_CASE("an evaluation between two plans leaves no trace", "[evaluation]") {
  for (const auto& [schedule, make] : ordinary_schedules())
    for (bool tied : {false, true}) {
      INFO(schedule << (tied ? " tied" : ""));
      Layout layout{.stages = 2, .width = 2, .microbatches = 2, .steps = 2, .tied = tied};
      Training training(gpt(small_gpt(tied, 0.1)), 2);
      training.clip = 0;
      SmallBatches batches(small_gpt());
      auto plans = plans_of(schedule, layout, 2);
      Outcome without = run_by_engine(training, plans, batches);
      const Plan& first = plans[0].plan();
      plans.insert(plans.begin() + 1, verify(make_evaluation(first, first.first + first.steps, 3)));
      Outcome with = run_by_engine(training, plans, batches);
      check_same_bits(with, without);
    }
}

TEST_CASE("an evaluation's losses do not depend on the schedule", "[evaluation]") {
  constexpr int microbatches = 5;
  std::map<int, double> losses;
  for (const auto& [schedule, make] : ordinary_schedules())
    for (int stages : {1, 3}) {
      const Layout layout = fitted(schedule, {.stages = stages, .width = 2, .microbatches = 2});
      Training training(gpt(small_gpt(false, 0.1)), layout.stages);
      SmallBatches batches(small_gpt());
      Plan like = make_plan(schedule, layout);
      std::vector plans{verify(make_evaluation(like, 0, microbatches))};
      Outcome outcome = run_by_engine(training, plans, batches);
      CHECK(outcome.losses.size() == microbatches);
      CHECK(outcome.losses == run_serially(training, plans, batches).losses);
      if (losses.empty()) losses = outcome.losses;
      CHECK(outcome.losses == losses);
      for (std::int64_t bytes : outcome.peak_activations) CHECK(bytes > 0);
    }
}
