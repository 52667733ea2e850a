// A schedule that is not in the register: its plan is verified, simulated and trained like any.
// Not here: the schedule (schedule.cpp). Chapter 14.
#include <ranges>

#include "parallel/lowering/lower.h"
#include "parallel/simulation/simulate.h"
#include "tests/adding/added.h"
#include "tests/catch.h"
#include "tests/error_of.h"
#include "tests/figures.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

// [snippet by_hand]
/// Makes the plan of a schedule that is in no register; make_plan(name, layout) needs a register.
Plan make_plan(const Schedule& schedule, const Layout& layout) {
  check_layout(schedule, layout);
  return lower(schedule.make(layout));
}
// [end snippet]

}  // namespace

TEST_CASE("adding a schedule: its plan reads like the paper's figure", "[adding]") {
  const Plan plan = make_plan(late_weights_schedule, {.stages = 2, .microbatches = 3});
  check_printed("added_plan", print(plan));
}

TEST_CASE("adding a schedule: every layout makes a plan that verifies", "[adding]") {
  for (int stages : {1, 2, 4})
    for (int width : {1, 2})
      for (int microbatches : {1, 3, 8})
        for (bool option : {false, true}) {
          const Layout layout{.stages = stages,
                              .width = width,
                              .microbatches = microbatches,
                              .steps = 2,
                              .clip = option,
                              .tied = option};
          CAPTURE(stages, width, microbatches, option);
          CHECK(verify(make_plan(late_weights_schedule, layout)).facts().capacity == 0);
        }
}

TEST_CASE("adding a schedule: its bubble is smaller than GPipe's, its memory the same",
          "[adding]") {
  const Layout layout{.stages = 4, .microbatches = 8};
  const Costs costs{.backward = {2}};  // each of its two parts takes half of that
  const VerifiedPlan ours = verify(make_plan(late_weights_schedule, layout));
  const VerifiedPlan theirs = verify(make_plan("gpipe", layout));
  CHECK(simulate(ours, costs).makespan() == 8 * 3 + 3 * (1 + 1));    // (D-1) (F + I) idle
  CHECK(simulate(theirs, costs).makespan() == 8 * 3 + 3 * (1 + 2));  // (D-1) (F + B) idle
  CHECK(ours.facts().peak_microbatches == theirs.facts().peak_microbatches);
}

TEST_CASE("adding a schedule: it trains with the bits of GPipe", "[adding]") {
  const Layout layout{.stages = 4, .microbatches = 4, .steps = 3, .clip = true, .tied = true};
  const Training training(gpt(small_gpt()), layout.stages);
  SmallBatches batches(small_gpt());
  const Outcome ours =
      run_by_engine(training, {verify(make_plan(late_weights_schedule, layout))}, batches);
  const Outcome theirs = run_by_engine(training, {verify(make_plan("gpipe", layout))}, batches);
  CHECK(ours.weights == theirs.weights);
  CHECK(ours.losses == theirs.losses);
}

TEST_CASE("adding a schedule: an order that the verifier rejects", "[adding]") {
  // [snippet last_first]
  // GPipe's paper lets the last microbatch go back first. Sums would then differ in their bits from
  // those of one rank, so the verifier asks for the order of the microbatches.
  auto last_first = [](const Layout& layout) {
    return flushed_plan(layout, [](Row& row, int stage, int step, const std::vector<int>& micros) {
      for (int micro : micros) row.push_back(forward(stage, micro, step));
      for (int micro : micros | std::views::reverse) row.push_back(backward(stage, micro, step));
    });
  };
  const Schedule schedule{.name = "last-first", .make = last_first};
  // [end snippet]
  const std::string said =
      error_of([&] { verify(make_plan(schedule, {.stages = 2, .microbatches = 2})); });
  check_printed("added_order", text("error: ", said, '\n'));
}
