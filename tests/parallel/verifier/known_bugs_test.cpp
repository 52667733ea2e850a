// Bugs of other frameworks, written as plans: each is refused by a rule's name, or it is none here
// and trains. Not here: one broken plan for each rule (verify_rules_test.cpp).
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;

namespace {

/// Trains a small GPT by a plan, as one rank does.
void check_trains(const Plan& plan) {
  Training training = small_training(plan.stages);
  SmallBatches batches(small_gpt(false));
  const Outcome ours = run_by_engine(training, {verify(plan)}, batches);
  const Outcome one = run_by_engine(
      training, plans_of("data", {.stages = plan.stages, .microbatches = plan.per_step}), batches);
  CHECK(ours.losses == one.losses);
  for (const auto& [where, weights] : ours.weights)
    CHECK(weights == one.weights.at({0, where.second}));
}

}  // namespace

// NeMo Automodel, pull request 3530: between two microbatches the gradients were set to none, so
// only the last microbatch trained the model. The loss looked right.
TEST_CASE("known bugs: gradients that are wiped between microbatches", "[verify]") {
  const std::string good =
      "stages 2 per_step 3 steps 1\n"
      "0F0v0 0a0>1 0g0<1 0B0v0 0F1v0 0a1>1 0g1<1 0B1v0 0F2v0 0a2>1 0g2<1 0B2v0 0Sv1\n"
      "0a0<0 1F0v0 1B0v0 0g0>0 0a1<0 1F1v0 1B1v0 0g1>0 0a2<0 1F2v0 1B2v0 0g2>0 1Sv1\n";
  check_trains(parse(good));
  check_refused(replaced(good, "1B1v0 0g1>0", "1B1v0 1Dpv1 0g1>0"), "shape", 1, "1Dpv1",
                "the plan has no shards");
  // Or an update that the last microbatch makes alone, while the gradients of others are lost.
  check_refused(replaced(replaced(good, "1B0v0", "1I0v0"), "1B1v0", "1I1v0"), "sum", 1, "1Sv1",
                "the gradient lacks (stage, microbatch) [(1, 0), (1, 1)]");
  // With shards, a sum may be dropped, but not before all ranks have added it up.
  const std::string sharded = print(make_plan("data", {.width = 2, .microbatches = 2, .zero = 2}));
  check_refused(replaced(sharded, "0B0v0", "0B0v0 0Dpv1"), "drop", 0, "0Dpv1",
                "is not here, or not reduced");
}

// Megatron-LM, issue 1852: a pipeline in which a rank has no layers deadlocks.
TEST_CASE("known bugs: ranks without layers", "[verify]") {
  // The middle rank has no stage: it does nothing, or hands on what comes.
  const std::string idle =
      "stages 2 per_step 1 steps 1\n0F0v0 0a0>2 0g0<2 0B0v0 0Sv1\n-\n"
      "0a0<0 1F0v0 1B0v0 0g0>0 1Sv1\n";
  check_trains(parse(idle));
  const std::string relayed =
      "stages 2 per_step 1 steps 1\n0F0v0 0a0>1 0g0<1 0B0v0 0Sv1\n0a0<0 0a0>2 0g0<2 0g0>0\n"
      "0a0<1 1F0v0 1B0v0 0g0>1 1Sv1\n";
  check_trains(parse(relayed));
  // One that waits for a stage of its own, whose layers nobody computes, is told before it runs.
  check_refused(replaced(idle, "-\n", "1a0<0\n"), "match", 1, "1a0<0",
                "rank 0 sends no such message");
  // Three stages on two ranks: one has two of them, the other a hole.
  check_trains(
      plan_of_rows(parse("stages 3 per_step 2 steps 1\n"
                         "0F0v0 0F1v0 2F0v0 2B0v0 2F1v0 2B1v0 0B0v0 0B1v0\n"
                         "1F0v0 1F1v0 1B0v0 1B1v0\n")));
  CHECK_THROWS_WITH(Training(gpt(small_gpt()), 7), Contains("6 layers can't be cut into 7 stages"));
}

// torchtitan, issue 775: 1F1B hangs with fewer microbatches than stages.
TEST_CASE("known bugs: fewer microbatches than stages", "[verify]") {
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int microbatches : {1, 2, 3})
      if (const Layout layout{.stages = 4, .microbatches = microbatches, .steps = 2};
          takes(name, layout)) {
        CAPTURE(name, microbatches);
        CHECK(verify(make_plan(name, layout)).facts().capacity == 0);
      }
  for (const char* name : {"1f1b", "interleaved", "zb-h2"})
    check_trains(make_plan(name, {.stages = 4, .microbatches = 1}));
}
