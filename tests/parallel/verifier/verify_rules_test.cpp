// verify: for each rule plans that break it, and what the error says.
#include "parallel/verifier/verify.h"
#include "tests/catch.h"
#include "tests/parallel/support/plan_cases.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;

namespace {

/// Two stages, two microbatches, 1F1B.
const std::string pipeline =
    "stages 2 per_step 2 steps 1 keep 1\n"
    "0F0v0 0a0>1 0F1v0 0a1>1 0g0<1 0B0v0 0g1<1 0B1v0 0Sv1\n"
    "0a0<0 1F0v0 0a1<0 1B0v0 0g0>0 1F1v0 1B1v0 0g1>0 1Sv1\n";

/// One rank, one stage, two steps; the second reads the older version.
const std::string delayed =
    "stages 1 per_step 2 steps 2 keep 2\n"
    "0F0v0 0B0v0 0F1v0 0B1v0 0Sv1 0F2v0 0B2v0 0F3v0 0B3v0 0Sv2\n";

/// Data parallelism of two ranks with two stages.
const std::string data =
    "stages 2 per_step 2 steps 1 keep 1 groups 0,1\n"
    "0F0v0 1F0v0 1B0v0 1Rv1@0 0B0v0 0Rv1@0 1Sv1 0Sv1\n"
    "0F1v0 1F1v0 1B1v0 1Rv1@0 0B1v0 0Rv1@0 1Sv1 0Sv1\n";

}  // namespace

TEST_CASE("rule shape: instructions have the fields they take, and name what exists", "[verify]") {
  auto check = [](const std::string& from, const std::string& to, const std::string& words) {
    check_refused(replaced(pipeline, from, to), "shape", 0, to, words);
  };
  check("0F0v0", "2F0v0", "stage 2 does not exist; there are 2");
  check("0F0v0", "0F2v0", "microbatch 2 does not exist; there are 0 to 1");
  check("0a0>1", "0a0>2", "rank 2 does not exist; there are 2");
  check("0a0>1", "0a0>0", "a rank does not send to itself");
  check("0Sv1", "0Rv1@0", "group 0 does not exist; there are 0");
  check("0Sv1", "0Dpv1", "the plan has no shards");
  check("0Sv1", "0wv0>1", "weights are sent from a stage's home");
  check("0Sv1", "0Dwv0", "weights of this plan die with their last reader");
  check_refused(replaced(data, "groups 0,1", "groups 1"), "shape", 0, "1Rv1@0",
                "without this rank");
  check_refused(replaced(data, "steps 1", "steps 0"), "shape", 0, "1B0v0", "it only runs forward");
  check_refused(replaced(plan_text("zero_1_clip"), "0Sv1", "0Dwv0 0Sv1"), "shape", 0, "0Dwv0",
                "gathered with sharded 3");

  Plan plan = parse(pipeline);
  plan.rows[0][0].version = -1;
  CHECK_THROWS_WITH(verify(plan), Contains("takes a stage, a microbatch and a version, as 2F5v1"));
  plan.rows[0][0] = {.op = Op::gather, .stage = 0, .micro = 0, .what = Value::turn};
  CHECK_THROWS_WITH(verify(plan), Contains("this operation does not take this value"));
}

TEST_CASE("rule shape: headers", "[verify]") {
  auto check = [](const std::string& from, const std::string& to, const std::string& words) {
    check_refused(replaced(data, from, to), "shape", -1, "", words);
  };
  check("per_step 2", "per_step 0", "at least one microbatch");
  check("per_step 2", "per_step 99999999", "it asks for 199999998 forwards");
  check("per_step 2", "per_step 2 first 99999999 sharded 4", "sharded is 0 to 3, not 4");
  check("steps 1", "steps 99999999 first 99999999", "microbatches are counted up to");
  check("keep 1", "keep 0", "keep is at least 1");
  check("keep 1", "keep 1,1,1", "one for each stage");
  check("groups 0,1", "groups 1,0", "group [1, 0] does not ascend");
  check("groups 0,1", "groups 0,2", "names a rank that does not exist; there are 2");
  check("groups 0,1", "groups 0,1 tied 1", "at least two stages are tied");
  check("groups 0,1", "groups 0,1 tied 0,2", "tied stages ascend and exist");
  check("groups 0,1", "groups 0,1 home 0", "home is a rank for each of 2 stages");
  check("groups 0,1", "groups 0,1 home 0,2", "home 2 does not exist");
  check("groups 0,1", "groups 0,1 sharded 1 home 0,1", "shards or homes, not both");
  CHECK_THROWS_AS(verify(Plan{}), PlanError);
}

TEST_CASE("rule input", "[verify]") {
  check_refused(replaced(pipeline, "0a0<0 1F0v0", "1F0v0 0a0<0"), "input", 1, "1F0v0",
                "the output of stage 0 for microbatch 0 is not here and no recv for it is posted");
  check_refused("stages 2 per_step 1 steps 1\n0F0v0 0B0v0 0Sv1\n1F0v0 1B0v0 1Sv1\n", "input", 0,
                "0B0v0", "is posted; the plan has no messages: plan lower adds them");
  check_refused(replaced(pipeline, "0g0<1 0B0v0", "0B0v0 0g0<1"), "input", 0, "0B0v0",
                "the gradient of stage 0's output for microbatch 0 is not here");
  check_refused(replaced(plan_text("zero_bubble"), "1I0v0 0g0>0", "1W0v0 1I0v0 0g0>0"), "input", 1,
                "1W0v0", "the input part of this backward, 1I0v0, comes first");
  check_refused(replaced(plan_text("cyclic_v2_data"), "2p0<0 ", ""), "input", 1, "2R1",
                "no partial sum of stage 2 is here and no recv for it is posted");
}

TEST_CASE("rule version", "[verify]") {
  check_refused(replaced(pipeline, "1F0v0", "1F0v1"), "version", 1, "1F0v1",
                "reads version 1 of stage 1; there: [0]");
  check_refused(replaced(delayed, "keep 2", "keep 1 first 1"), "shape", 0, "0F0v0",
                "there are 2 to 5");
  // Version 0 dies with its last reader, which is the step.
  check_refused("stages 1 per_step 1 steps 2 keep 1\n0F0v0 0B0v0 0Sv1 0F1v2 0B1v2 0Sv2\n",
                "version", 0, "0F1v2", "reads version 2 of stage 0; there: [1]");
  check_refused("stages 1 per_step 1 steps 0 first 3 keep 2\n0F0v2 0Da0\n", "version", 0, "0F0v2",
                "this evaluation is of version 3");
}

TEST_CASE("rule gathered", "[verify]") {
  const std::string zero = plan_text("zero_3");
  check_refused(replaced(zero, "0Gwv0@0 1Gwv0@0 0F0v0", "1Gwv0@0 0F0v0"), "gathered", 0, "0F0v0",
                "only this rank's shard of version 0 of stage 0 is there");
  check_refused(replaced(zero, "0F0v0 0Dwv0", "0F0v0"), "gathered", 0, "0Gwv0@0",
                "the whole of version 0 of stage 0 is here already");
  check_refused(replaced(plan_text("zero_1_clip"), "0Gwv1@0 ", ""), "gathered", 0, "0F2v1",
                "only this rank's shard of version 1");
}

TEST_CASE("rule same version", "[verify]") {
  check_refused(replaced(delayed, "0B2v0", "0B2v1"), "same version", 0, "0B2v1",
                "reads version 1; its forward read 0");
  check_refused(replaced(delayed, "0F2v0", "0F2v0 0Da2 0F2v1"), "same version", 0, "0F2v1",
                "reads version 1; its first forward read 0");
}

TEST_CASE("rules stash and once", "[verify]") {
  check_refused(replaced(pipeline, "1B0v0", "1Da0 1B0v0"), "stash", 1, "1B0v0",
                "activations were dropped");
  check_refused(replaced(delayed, "0F0v0 ", ""), "stash", 0, "0B0v0",
                "no forward has left activations of microbatch 0 here");
  check_refused(replaced(delayed, "0F1v0", "0F0v0"), "once", 0, "0F0v0",
                "microbatch 0 has passed stage 0 before, on rank 0");
  check_refused(replaced(data, "0F1v0 1F1v0", "0F0v0 1F0v0"), "once", 1, "0F0v0",
                "microbatch 0 has passed stage 0 before, on rank 0");
  check_refused(replaced(delayed, "0B0v0", "0B0v0 0B0v0"), "once", 0, "0B0v0",
                "microbatch 0 has passed back through stage 0 before, on rank 0");
  check_refused(replaced(pipeline, "1F0v0", "1F0v0 1F0v0"), "once", 1, "1F0v0", "on rank 1");
}

TEST_CASE("rules send and match", "[verify]") {
  check_refused(replaced(pipeline, "0F0v0 0a0>1", "0a0>1 0F0v0"), "send", 0, "0a0>1",
                "sends what is not here: the output of stage 0 for microbatch 0");
  check_refused(replaced(pipeline, "0a0>1", "0a0>1 0a0>1"), "send", 0, "0a0>1", "is not here");
  check_refused(replaced(plan_text("cyclic_v2_data"), "2B0v0 2p0>1", "2p0>1 2B0v0"), "send", 0,
                "2p0>1", "the gradient sum of stage 2 up to microbatch 0");
  check_refused(replaced(pipeline, "0a0>1 0F1v0 0a1>1", "0F1v0 0a1>1 0a0>1"), "match", 1, "0a0<0",
                "rank 0 sends 0a1>1 as message 0");
  check_refused(replaced(pipeline, "0a0<0", "0a0<0 0a0<0"), "match", 1, "0a0<0", "already");
  check_refused(replaced(data, "0F1v0", "1t1<0 0F1v0"), "match", 1, "1t1<0",
                "rank 0 sends no such message; it has 0 for this rank");
  check_refused(replaced(plan_text("cyclic_v2_zero"), "0Dwv0", ""), "match", 0, "0wv0<2",
                "version 0 of stage 0 is here, or on its way, already");
}

TEST_CASE("rule send: an input is gone once it was used", "[verify]") {
  check_refused(
      "stages 2 per_step 1 steps 1 keep 1\n"
      "0F0v0 0a0>1 0a0<1 0a0>1 0g0<1 0B0v0 0Sv1\n"
      "0a0<0 1F0v0 0a0>0 0a0<0 1B0v0 0g0>0 1Sv1\n",
      "send", 1, "0a0>0", "sends what is not here: the output of stage 0 for microbatch 0");
  check_refused(
      "stages 2 per_step 1 steps 1 keep 1\n"
      "0F0v0 0a0>1 0g0<1 0I0v0 0g0>1 0g0<1 0W0v0 0Sv1\n"
      "0a0<0 1F0v0 1B0v0 0g0>0 0g0<0 0g0>0 1Sv1\n",
      "send", 0, "0g0>1", "sends what is not here: the gradient of stage 0's output");
  // What comes later has the stash: neither recomputation nor the weight part needs the input.
  verify(
      parse("stages 2 per_step 1 steps 1 keep 1\n"
            "0F0v0 0a0>1 0g0<1 0I0v0 0W0v0 0Sv1\n"
            "0a0<0 1F0v0 1Da0 1F0v0 1B0v0 0g0>0 1Sv1\n"));
}

TEST_CASE("rule turn", "[verify]") {
  check_refused(replaced(plan_text("cyclic_v2_data"), "0t1<0 0F1v0", "0F1v0 0t1<0"), "turn", 1,
                "0t1<0", "the forward whose turn this is has run");
}

TEST_CASE("rules sum and sum order", "[verify]") {
  check_refused(replaced(delayed, "0F1v0 0B1v0 0Sv1", "0F1v0 0Sv1 0B1v0"), "sum", 0, "0Sv1",
                "the gradient lacks (stage, microbatch) [(0, 1)]");
  const std::string cyclic = plan_text("cyclic_v2_data");
  check_refused(replaced(cyclic, "2R1 2p1>2", "2p1>2 2R1"), "sum", 1, "2p1>2",
                "the name says up to 1, the sum holds [(2, 1)]; beside it is one up to 0");
  check_refused(replaced(cyclic, "2R1 2p1>2", "2R2 2p2>2"), "sum", 1, "2R2",
                "the name says up to 2, the sum holds [(2, 1)] and all up to 0");
  check_refused(replaced(data, "1B0v0 1Rv1@0", "1Rv1@0 1B0v0"), "sum", 0, "1Rv1@0",
                "this rank has no open sum of stage 1 for version 1: every holder of a stage "
                "needs a microbatch in each update");
  const std::string wide = replaced(data, "per_step 2", "per_step 3");
  check_refused(replaced(wide, "0Rv1@0 1Sv1 0Sv1", "0Rv1@0 0F2v0 1F2v0 1B2v0 0B2v0 1Sv1 0Sv1"),
                "sum", 0, "1B2v0", "adds to the sum of stage 1 after its reduction");
  check_refused(replaced(wide, "0F0v0", "0F2v0 1F2v0 0F0v0"), "sum", 0, "1Rv1@0",
                "the gradient lacks (stage, microbatch) [(1, 2)]");
  check_refused(replaced(delayed, "0B0v0 0F1v0 0B1v0", "0F1v0 0B1v0 0B0v0"), "sum order", 0,
                "0B0v0", "adds microbatch 0 after a later one");
}

TEST_CASE("rules order and norm", "[verify]") {
  check_refused(replaced(delayed, "0Sv1", "0Sv1 0Sv1"), "order", 0, "0Sv1",
                "makes version 1 of stage 0, newest is 1");
  check_refused(replaced(delayed, "0Sv1", "0Sv2"), "order", 0, "0Sv2", "newest is 0");
  check_refused(replaced(plan_text("cyclic_v2_zero"), "1p2<2", "1p2<2 0Sv1"), "order", 1, "0Sv1",
                "newest is none");
  check_refused(replaced(data, "keep 1", "clip 1 keep 1"), "norm", 0, "1Sv1",
                "norm of update 1 unknown");
  const std::string clipped = plan_text("zero_1_clip");
  check_refused(replaced(clipped, "Rnv1@0", "Rnv1@0 Rnv1@0"), "norm", 0, "Rnv1@0", "known already");
  const std::string early = replaced(clipped, "0Rv1@0 Rnv1@0", "Rnv1@0 0Rv1@0");
  check_refused(replaced(early, "0Rv1@0 Rnv1@0", "Rnv1@0 0Rv1@0"), "norm", 0, "Rnv1@0",
                "the sum of stage 0 is not finished in group [0, 1] by then");
}

TEST_CASE("rule together", "[verify]") {
  const std::string late = "1Rv1@0 0B1v0 0Rv1@0";
  check_refused(replaced(data, late, "0B1v0 0Rv1@0 1Rv1@0"), "together", 0, "1Rv1@0",
                "rank 1 is at 0Rv1@0 instead");
  check_refused(replaced(plan_text("zero_3"), " 0Dwv0 2Sv1 1Sv1 0Sv1 0Gwv1@0 1Gwv1@0",
                         " 0Dwv0 2Sv1 1Sv1 0Sv1 1Gwv1@0 0Gwv1@0"),
                "together", 0, "1Gwv1@0", "rank 1 is at 0Gwv1@0 instead");
  check_refused("stages 1 per_step 1 steps 1 groups 0,1 keep 1\n0F0v0 0B0v0 0Rv1@0 0Sv1\n-\n",
                "together", 0, "0Rv1@0", "rank 1 never joins");
}

TEST_CASE("rules drop and leak", "[verify]") {
  check_refused(replaced(pipeline, "1B0v0", "1Da1 1B0v0"), "drop", 1, "1Da1",
                "nothing to drop: no activations of microbatch 1 are kept here");
  check_refused(replaced(plan_text("zero_bubble"), "0W0v0", "0Da0 0F0v0 0W0v0"), "drop", 0, "0Da0",
                "the weight part needs what the input part has left here");
  const std::string zero = plan_text("zero_3");
  check_refused(replaced(zero, "0F0v0", "2Dwv0 0F0v0"), "drop", 0, "2Dwv0",
                "nothing to drop; there: versions [0]; this one is only a shard, which stays");
  check_refused(replaced(zero, "2Rv1@0 2Dpv1", "2Dpv1 2Rv1@0"), "drop", 0, "2Dpv1", "not reduced");
  check_refused(replaced(zero, "2Dpv1 ", ""), "leak", 0, "2Sv1", "the unreduced sum is left over");
  check_refused(replaced(zero, "0Dwv1 2Sv2 1Sv2 0Sv2\n", "2Sv2 1Sv2 0Sv2\n"), "leak", 0, "0Gwv1@0",
                "versions [1] of stage 0 left over");
  check_refused("stages 1 per_step 1 steps 0 keep 1\n0F0v0\n", "leak", 0, "0F0v0",
                "its activations are left over: no drop frees them");
  check_refused(replaced(plan_text("cyclic_v2_zero"), "0p1>2 1p2<2", "0p1>2 1wv0>0 1p2<2"), "end",
                1, "1wv0>0", "the message is never received");
  const std::string turned = replaced(data, "0F0v0", "0F0v0 1t0>1");
  check_refused(replaced(turned, "0F1v0", "0F1v0 1t0<0"), "leak", 1, "1t0<0", "what it brings");
}

TEST_CASE("rule hang: who waits for whom", "[verify]") {
  const std::string circle = replaced(pipeline, "0F0v0", "0t0<1 0F0v0");
  check_refused(replaced(circle, "1F0v0", "1F0v0 0t0>0"), "hang", 0, "0F0v0",
                "waits for rank 1 to reach 0t0>0; rank 1 at 1F0v0 waits for rank 0 to reach 0a0>1");
  const std::string groups =
      "stages 2 per_step 2 steps 1 keep 1 groups 0,1/0,1\n"
      "0F0v0 1F0v0 1B0v0 0B0v0 1Rv1@0 0Rv1@1 1Sv1 0Sv1\n"
      "0F1v0 1F1v0 1B1v0 0B1v0 0Rv1@1 1Rv1@0 1Sv1 0Sv1\n";
  check_refused(
      groups, "hang", 0, "1Rv1@0",
      "waits for rank 1 to reach 1Rv1@0; rank 1 at 0Rv1@1 waits for rank 0 to reach 0Rv1@1");
  // A channel can hold activations for long, but not weights: a drop waits until they are sent.
  const std::string crossing =
      replaced(plan_text("cyclic_v2_zero"), "1wv0<1 0wv0>1", "0wv0>1 1wv0<1");
  check_refused(
      replaced(crossing, "0wv0<0 0t1<0 1wv0>0", "1wv0>0 0wv0<0 0t1<0"), "hang", 1, "1wv0>0",
      "waits for rank 0 to reach 1wv0<1; rank 0 at 0wv0>1 waits for rank 1 to reach 0wv0<0");
}

TEST_CASE("rule end", "[verify]") {
  check_refused(replaced(delayed, " 0Sv2", ""), "end", 0, "", "stage 0 ends at version 1, not 2");
  check_refused(replaced(data, "1Sv1 0Sv1\n", "1Sv1\n", "0F1v0"), "end", 1, "",
                "stage 0 ends at version 0, not 1");
  check_refused("stages 1 per_step 2 steps 0 keep 1\n0F0v0 0Da0\n", "end", -1, "",
                "microbatch 1 never runs forward through stage 0");
  check_refused(replaced(data, "0F0v0", "0F0v0 1t0>1"), "end", 0, "1t0>1",
                "the message is never received; rank 1 has 0 recvs from this rank");
  check_refused(replaced(plan_text("zero_1_clip"), " 1Sv2 1Gwv2@0\n", " 1Sv2\n", "0F1v0"),
                "together", 0, "1Gwv2@0", "rank 1 never joins");
  std::string shard = replaced(plan_text("zero_1_clip"), " 1Gwv2@0\n", "\n");
  check_refused(replaced(shard, " 1Gwv2@0\n", "\n"), "end", 0, "",
                "ends with a shard of version 2");
}

TEST_CASE("rule drift: backwards read the newest version, and not too much newer", "[verify]") {
  const std::string drifting =
      "stages 1 per_step 1 steps 3 drift 2\n"
      "0F0v0 0F1v0 0F2v0 0B0v0 0Sv1 0B1v1 0Sv2 0B2v2 0Sv3\n";
  const Plan plan = parse(drifting);
  CHECK(print(plan) == drifting);
  const Facts facts = verify(plan).facts();
  CHECK(facts.drift == 2);
  CHECK(facts.staleness == 0);
  CHECK(facts.live_versions == std::vector{1});
  CHECK(verify(parse(replaced(drifting, "drift 2", "drift 5"))).facts().drift == 2);
  check_refused(replaced(drifting, "drift 2", "drift 1"), "drift", 0, "0B2v2",
                "reads version 2; its forward read 0, and drift is 1");
  check_refused(replaced(drifting, " drift 2", ""), "same version", 0, "0B1v1",
                "reads version 1; its forward read 0");
  // A step overwrites the version before, though a cell of the row still names it.
  check_refused(replaced(drifting, "0B1v1", "0B1v0"), "version", 0, "0B1v0",
                "reads version 0 of stage 0; there: [1]");
  check_refused(replaced(drifting, "0Sv1 0B1v1", "0B1v1 0Sv1"), "version", 0, "0B1v1",
                "reads version 1 of stage 0; there: [0]");
}

TEST_CASE("rule drift: recomputed forwards, and backwards in two parts", "[verify]") {
  const std::string recomputed =
      "stages 1 per_step 1 steps 2 drift 1\n"
      "0F0v0 0F1v0 0Da1 0B0v0 0Sv1 0F1v1 0B1v1 0Sv2\n";
  CHECK(verify(parse(recomputed)).facts().drift == 1);
  check_refused(replaced(recomputed, "0F1v1", "0F1v0"), "version", 0, "0F1v0", "there: [1]");
  check_refused(replaced(recomputed, " drift 1", ""), "same version", 0, "0F1v1",
                "reads version 1; its first forward read 0");
  const std::string split =
      "stages 1 per_step 1 steps 2 drift 1\n"
      "0F0v0 0F1v0 0B0v0 0Sv1 0I1v1 0W1v1 0Sv2\n";
  CHECK(verify(parse(split)).facts().drift == 1);
  check_refused(replaced(split, "0B0v0 0Sv1 0I1v1", "0I1v0 0B0v0 0Sv1"), "input", 0, "0W1v1",
                "the input part of this backward, 0I1v1, comes first");
}

TEST_CASE("rule shape: what plans with drift can't have", "[verify]") {
  auto check = [](const std::string& text, const std::string& from, const std::string& to,
                  const std::string& words) {
    check_refused(replaced(text, from, to), "shape", -1, "", words);
  };
  check(delayed, "keep 2", "keep 2 drift 1", "one version of each stage is alive, so keep is 1");
  check(pipeline, "keep 1", "home 0,1 drift 1", "without home, and with sharded 2 at most");
  check(data, "keep 1", "sharded 3 drift 1", "without home, and with sharded 2 at most");
  check(pipeline, "keep 1", "in_flight 2 drift 1", "it can't depend on timing (in_flight)");
}
