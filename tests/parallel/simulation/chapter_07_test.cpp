// The examples of chapter 07, as they stand in its text.

#include "parallel/lowering/lower.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

TEST_CASE("chapter 07: steps that wait for the whole gradient's norm come late") {
  // [snippet lazy]
  const Layout layout{.stages = 4, .microbatches = 4, .steps = 10, .clip = true};
  auto seconds = [&](StepPlacement placement) {
    Plan plan = find_schedule("2bw").make(layout);
    for (Row& row : plan.rows)
      std::erase_if(row, [](const Instruction& x) { return x.op == Op::step; });
    place_steps(plan, placement);
    Costs costs;
    costs.forward = {1};
    costs.backward = {2};
    return simulate(verify(lower(plan)), costs).makespan();
  };
  // 10 steps of 4 microbatches of 3 seconds; D-1 = 3 such times to fill and empty the pipeline.
  CHECK(seconds(StepPlacement::lazy) == (10 * 4 + 3) * 3);
  // At each of the 9 borders between steps the last stage waits for 3 backwards.
  CHECK(seconds(StepPlacement::eager) == (10 * 4 + 3) * 3 + 9 * 3 * 2);
  // [end snippet]
}

TEST_CASE("chapter 07: a plan of one more step has the middle once more") {
  for (int stages = 2; stages <= 6; ++stages)
    for (int microbatches : {1, stages - 1, stages, 2 * stages})
      for (bool clip : {false, true}) {
        INFO("D" << stages << " m" << microbatches << " clip " << clip);
        Layout layout{.stages = stages, .microbatches = microbatches, .steps = 6, .clip = clip};
        // [snippet repeats]
        const Plan plan = make_plan("2bw", layout), later = later_plan(plan, 1);
        layout.steps += 1;
        const Plan longer = make_plan("2bw", layout);
        for (int rank = 0; rank < plan.ranks(); ++rank) {
          const Row &row = plan.rows[rank], &next = longer.rows[rank];
          // Up to the bar both rows are the same. Then the longer one goes a body back, and says
          // all of it again, one version and m microbatches later.
          const auto bar = std::ranges::mismatch(row, next).in1 - row.begin();
          const auto body = std::ssize(next) - std::ssize(row);
          REQUIRE(bar >= body);
          CHECK(std::equal(next.begin() + bar, next.end(), later.rows[rank].begin() + bar - body,
                           later.rows[rank].end()));
        }
        // [end snippet]
      }
}
