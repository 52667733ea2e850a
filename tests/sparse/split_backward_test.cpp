// Split backwards of pruned stages: a zero-bubble plan has the bits of 1F1B, in every form.
// Not here: what waits for the second part (parallel/engine/weight_part_test.cpp). Chapter 11.
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

TEST_CASE("split backward: pruned stages train like 1F1B, bit for bit", "[weight_part]") {
  Training training = small_training(2);
  training.recompute_layers = GENERATE(false, true);
  const auto masks = first_masks(training, 0.8, false);
  const std::vector<VerifiedPlan> split{verify(parse(plan_text("zero_bubble")))};
  const auto whole = plans_of("1f1b", {.stages = 2, .microbatches = 3, .steps = 2});
  SmallBatches batches(small_gpt());
  for (const MakeStateForm& form :
       {form_of<SamoForm>(masks), form_of<SparseForm>(masks), form_of<MaskedForm>(masks)}) {
    training.form = form;
    const Outcome one = run_by_engine(training, split, batches);
    const Outcome other = run_by_engine(training, whole, batches);
    check_same_bits(one, other);
    for (int rank : {0, 1}) CHECK(one.live[rank] == other.live[rank]);
  }
}
