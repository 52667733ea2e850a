// Rules of endless plans: for each way in which a body can fail to repeat, a plan, and the error.
// Not here: the plans of schedules (endless_test), and random faults (endless_mutation_test).
#include "parallel/plan/plan.h"
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::parallel;
using namespace plangrad::tests;

namespace {

const std::string two_versions = plan_text("2bw_endless");

/// Two ranks with a replica each; the body is a step.
const std::string data =
    "stages 1 per_step 2 steps 2 groups 0,1 period 1\n"
    "0F0v0 0B0v0 | 0Rv1@0 0Sv1 0F2v1 0B2v1 | 0Rv2@0 0Sv2\n"
    "0F1v0 0B1v0 | 0Rv1@0 0Sv1 0F3v1 0B3v1 | 0Rv2@0 0Sv2\n";

/// Two stages on two ranks; the body is a step, and nothing is under way at the bars.
const std::string pipeline =
    "stages 2 per_step 2 steps 2 period 1\n"
    "| 0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1 | 0F2v1 0a2>1 0F3v1 0a3>1 0g2<1 0B2v1 "
    "0g3<1 0B3v1 0Sv2\n"
    "| 0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1 | 0a2<0 1F2v1 0a3<0 1B2v1 0g2>0 1F3v1 "
    "1B3v1 0g3>0 1Sv2\n";

/// Checks that nothing but `repeat` is wrong with a plan, and that the error is right: the plan of
/// one body verifies, and a longer one does not.
void check_only_repeat(const std::string& text, const std::string& words) {
  check_broken(text, "repeat", words);
  const Plan plan = parse(text);
  CHECK_NOTHROW(verify(unrolled(plan, 1)));
  CHECK_THROWS_AS(verify(unrolled(plan, 3)), PlanError);
}

}  // namespace

TEST_CASE("endless plans that are right verify", "[verify]") {
  for (const std::string& text : {two_versions, data, pipeline}) {
    const Plan plan = parse(text);
    CHECK(verify(plan).plan() == plan);
    for (int bodies : {1, 2, 3, 5}) CHECK_NOTHROW(verify(unrolled(plan, bodies)));
  }
  CHECK(verify(parse(two_versions)).facts().capacity == 0);
}

TEST_CASE("rule repeat: a body ends with the versions that it begins with", "[verify]") {
  // The bars stand a step too early: version 0 is read at first because there is no older one.
  const std::string early =
      "stages 1 per_step 1 steps 3 keep 2 period 1\n"
      "| 0F0v0 0B0v0 0Sv1 | 0F1v0 0B1v0 0Sv2 0F2v1 0B2v1 0Sv3\n";
  check_broken(early, "repeat",
               "repeat: rank 0, 0F1v0: the body does not end as it began. Only before it there is: "
               "nothing. Only after it, counted back by the period: version -1 of stage 0");
  check_broken(early, "repeat", "\n  rank 0: 0F0v0 0B0v0 0Sv1 [0F1v0] 0B1v0");
  // A body without its step: versions stay while the period counts them on.
  check_only_repeat(
      "stages 1 per_step 1 steps 2 period 1\n"
      "0F0v0 0B0v0 0Sv1 | 0F1v1 0B1v1 | 0Sv2\n",
      "Only before it there is: version 1 of stage 0. Only after it, counted back by the period: "
      "the gradient sum of stage 0 for version 1");
}

TEST_CASE("rule repeat: sums and activations", "[verify]") {
  check_only_repeat(
      "stages 1 per_step 1 steps 3 period 1\n"
      "0F0v0 0B0v0 | 0Sv1 0F1v1 0B1v1 0Sv2 | 0F2v2 0B2v2 0Sv3\n",
      "Only before it there is: the gradient sum of stage 0 for version 1, which holds "
      "[(0, 0)]");
  check_only_repeat(
      "stages 1 per_step 2 steps 2 period 1\n"
      "0F0v0 0B0v0 | 0F1v0 0B1v0 0Sv1 0F2v1 | 0F3v1 0B2v1 0B3v1 0Sv2\n",
      "Only before it there is: the gradient sum of stage 0 for version 1, which holds "
      "[(0, 0)]");
  check_only_repeat(
      "stages 1 per_step 2 steps 2 period 1\n"
      "0F0v0 | 0B0v0 0F1v0 0B1v0 0Sv1 0F2v1 0Da2 | 0F2v1 0B2v1 0F3v1 0B3v1 0Sv2\n",
      "Only after it, counted back by the period: ");
  check_only_repeat(
      "stages 1 per_step 2 steps 2 period 1\n"
      "0F0v0 | 0B0v0 0F1v0 0B1v0 0Sv1 0F2v1 0I2v1 | 0W2v1 0F3v1 0B3v1 0Sv2\n",
      "half back");
}

TEST_CASE("rule repeat: messages under way", "[verify]") {
  // Rank 1 posts a receive before the bar, whose message comes after it.
  const std::string awaited = replaced(pipeline, "0g1>0 1Sv1 | 0a2<0", "0g1>0 1Sv1 0a2<0 |");
  check_only_repeat(awaited, "Only after it, counted back by the period: ");
  const std::string from_0 = replaced(pipeline, "0Sv1 | 0F2v1 0a2>1", "0Sv1 0F2v1 0a2>1 |");
  check_broken(from_0, "repeat", "Only after it, counted back by the period: ");
  // A turn that no rank keeps: it is under way at the second bar, and was not at the first.
  check_only_repeat(
      "stages 2 per_step 1 steps 2 stagger 2 period 1\n"
      "| 0F0v0 0a0>1 0g0<1 0B0v0 0Sv1 1t1>1 | 0F1v1 0a1>1 0g1<1 0B1v1 0Sv2\n"
      "| 0a0<0 1F0v0 1B0v0 0g0>0 1Sv1 | 1t1<0 0a1<0 1F1v1 1B1v1 0g1>0 1Sv2\n",
      "Only before it there is: nothing. Only after it, counted back by the period: sent: 1t0>1");
  check_only_repeat(
      "stages 2 per_step 2 steps 2 period 1\n"
      "0F0v0 0a0>1 0F1v0 0a1>1 | 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1 0F2v1 0F3v1 0a3>1 0a2>1 | "
      "0g2<1 0B2v1 0g3<1 0B3v1 0Sv2\n"
      "| 0a0<0 0a1<0 1F0v0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1 | "
      "0a3<0 0a2<0 1F2v1 1B2v1 0g2>0 1F3v1 1B3v1 0g3>0 1Sv2\n",
      "the messages under way to rank 1 have another order than before the body");
}

TEST_CASE("rule repeat: a period that the body does not have", "[verify]") {
  check_broken(replaced(data, "period 1", "period 2"), "repeat",
               "Only before it there is: the gradient sum of stage 0 for version 1, which holds "
               "[(0, 0)]");
}

TEST_CASE("rule repeat: the version that a microbatch reads of the tied stage", "[verify]") {
  // The stages 0 and 1 share stage 2, which each microbatch reads as old as 0F names it: 0F1 reads
  // the newest version, 0F2 and later ones the version before. At the bars the weight part of the
  // backward of stage 1 is left. By the body as it is written, 1W1 reads version 1, and 1W2, a body
  // later, would read version 2; but 0F2 has named version 1.
  const std::string tied =
      "stages 2 per_step 1 steps 3 first 1 keep 2 groups 0,1 tied 0,1 period 1\n"
      "0F1v1 0a1>1 0g1<1 0B1v1 0Sv2 | 2Rv2@0 2Sv2 0F2v1 0a2>1 0g2<1 0B2v1 0Sv3 | "
      "2Rv3@0 2Sv3 0F3v2 0a3>1 0g3<1 0B3v2 0Sv4 2Rv4@0 2Sv4\n"
      "0a1<0 1F1v1 1I1v1 0g1>0 | 1W1v1 1Sv2 2Rv2@0 2Sv2 0a2<0 1F2v2 1I2v2 0g2>0 | "
      "1W2v2 1Sv3 2Rv3@0 2Sv3 0a3<0 1F3v3 1I3v3 0g3>0 1W3v3 1Sv4 2Rv4@0 2Sv4\n";
  check_broken(tied, "repeat",
               "repeat: microbatch 1 reads version 1 of the tied stage, and microbatch 2, a body "
               "later, version 1");
  // Without the bars it is a plan as any other.
  CHECK_NOTHROW(verify(unrolled(parse(tied), 1)));
}

TEST_CASE("rule together: a group meets on one side of each bar", "[verify]") {
  const std::string across = replaced(data, "| 0Rv1@0 0Sv1 0F3v1", "0Rv1@0 | 0Sv1 0F3v1");
  check_refused(across, "together", 1, "0Rv1@0", "lies on another side of a bar than on rank 0");
  const std::string at_end = replaced(data, "0B3v1 | 0Rv2@0", "0B3v1 0Rv2@0 |");
  check_refused(at_end, "together", 1, "0Rv2@0", "lies on another side of a bar than on rank 0");
}

TEST_CASE("rule hang: all ranks reach their bars without what stands behind", "[verify]") {
  // Rank 1 uses before its bar what rank 0 sends behind its own.
  const std::string bars =
      "stages 2 per_step 1 steps 2 period 1\n"
      "0F0v0 | 0a0>1 0g0<1 0B0v0 0Sv1 0F1v1 | 0a1>1 0g1<1 0B1v1 0Sv2\n"
      "0a0<0 1F0v0 1B0v0 0g0>0 1Sv1 | 0a1<0 1F1v1 1B1v1 0g1>0 1Sv2 |\n";
  check_broken(bars, "hang", "stands behind its bar: the rows do not all reach their bars without");
  CHECK_NOTHROW(verify(unrolled(parse(bars), 3)));  // the plan would run; its bars are wrong
}

TEST_CASE("rule shape: headers of endless plans", "[verify]") {
  auto check = [](const std::string& from, const std::string& to, const std::string& words) {
    check_refused(replaced(data, from, to), "shape", -1, "", words);
  };
  check("period 1", "period 3", "a period is 1 to 2 steps, as many as the plan has at most, not 3");
  check("period 1", "period 1 in_flight 1",
        "the order of a message-driven plan depends on timing, so it can't repeat (period)");
  Plan plan = parse(data);
  plan.bars.pop_back();
  CHECK_THROWS_WITH(verify(plan), Contains("each row of a plan with a period has two bars"));
  plan = parse(data);
  plan.bars[1] = {5, 4};
  CHECK_THROWS_WITH(verify(plan), Contains("the bars of rank 1 stand at cells 5 and 4 of 8"));
  plan.bars[1] = {2, 9};
  CHECK_THROWS_WITH(verify(plan), Contains("the bars of rank 1 stand at cells 2 and 9 of 8"));
  plan = parse(data);
  plan.period = 0;
  CHECK_THROWS_WITH(verify(plan), Contains("no other plan has any"));
}
