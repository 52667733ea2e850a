// verify: the facts of good plans of every kind. Not here: the rules (verify_rules_test).
#include "parallel/verifier/verify.h"

#include "parallel/schedules/schedule.h"
#include "tests/catch.h"
#include "tests/parallel/support/ordinary_schedules.h"
#include "tests/parallel/support/plan_cases.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;
using plangrad::autograd::text;

namespace {

Facts facts(const std::string& text) { return verify(parse(text)).facts(); }

using Ints = std::vector<int>;
using Messages = std::map<std::string, int>;

/// Two stages that share a tensor, which is stage 2.
const std::string tied =
    "stages 2 per_step 1 steps 2 keep 1 groups 0,1 tied 0,1\n"
    "0F0v0 0a0>1 0g0<1 0B0v0 2Rv1@0 0Sv1 2Sv1 0F1v1 0a1>1 0g1<1 0B1v1 2Rv2@0 0Sv2 2Sv2\n"
    "0a0<0 1F0v0 1B0v0 0g0>0 2Rv1@0 1Sv1 2Sv1 0a1<0 1F1v1 1B1v1 0g1>0 2Rv2@0 1Sv2 2Sv2\n";

}  // namespace

TEST_CASE("facts of the examples", "[verify]") {
  struct Example {
    const char* name;
    int staleness;
    Ints live_versions, versions_in_use, peak_microbatches;
    Messages messages;
  };
  const Example examples[] = {
      {"2bw", 1, {2, 2, 2}, {2, 2, 2}, {3, 2, 1}, {{"a", 18}, {"g", 18}}},
      {"cyclic_v2_data", 1, {2, 2, 2}, {1, 1, 1}, {3, 3, 3}, {{"p", 24}, {"t", 5}}},
      {"cyclic_v2_pipeline", 1, {2, 2, 2}, {2, 2, 1}, {3, 2, 1}, {{"a", 12}, {"g", 12}}},
      {"cyclic_v2_model", 1, Ints(6, 2), Ints(6, 1), Ints(6, 1), {{"a", 12}, {"g", 12}, {"p", 14}}},
      {"cyclic_v2_zero", 1, {2, 2, 2}, {1, 1, 2}, {3, 3, 3}, {{"p", 16}, {"t", 2}, {"w", 18}}},
      {"zero_3", 0, {1, 1}, {1, 1}, {3, 3}, {{"gather", 12}, {"reduce", 6}}}};
  for (const Example& example : examples) {
    INFO(example.name);
    const Plan plan = parse(plan_text(example.name));
    const VerifiedPlan verified = verify(plan);
    CHECK(verified.plan() == plan);
    CHECK(verified.facts().capacity == 0);
    CHECK(verified.facts().staleness == example.staleness);
    CHECK(verified.facts().live_versions == example.live_versions);
    CHECK(verified.facts().versions_in_use == example.versions_in_use);
    CHECK(verified.facts().peak_microbatches == example.peak_microbatches);
    CHECK(verified.facts().peak_inputs == example.peak_microbatches);
    CHECK(verified.facts().messages == example.messages);
  }
}

TEST_CASE("capacity: the smallest number of messages a channel must hold", "[verify]") {
  // Both ranks send so many turns before they receive any.
  auto crossed = [](int turns) {
    std::string rows[2];
    for (int rank = 0; rank < 2; ++rank) {
      for (int micro = 0; micro < 2 * turns; ++micro)
        if (micro % 2 != rank) rows[rank] += text("0t", micro, ">", 1 - rank, " ");
      for (int micro = rank; micro < 2 * turns; micro += 2)
        rows[rank] += text("0t", micro, "<", 1 - rank, " ");
      for (int micro = rank; micro < 2 * turns; micro += 2)
        rows[rank] += text("0F", micro, "v0 0B", micro, "v0 ");
      rows[rank] += "0Rv1@0 0Sv1\n";
    }
    return text("stages 1 steps 1 keep 1 groups 0,1 per_step ", 2 * turns, "\n", rows[0], rows[1]);
  };
  for (int turns : {1, 2, 3, 5, 8}) CHECK(facts(crossed(turns)).capacity == turns);
  CHECK(facts(plan_text("interleaved")).capacity == 1);
  CHECK(facts(tied).capacity == 0);
}

TEST_CASE("interleaved stages, backwards in two parts, recomputation", "[verify]") {
  const Facts interleaved = facts(plan_text("interleaved"));
  CHECK(interleaved.peak_microbatches == Ints{4, 3});
  CHECK(interleaved.messages == Messages{{"a", 6}, {"g", 6}});
  CHECK(facts(plan_text("zero_bubble")).peak_microbatches == Ints{3, 2});

  const std::string recomputed =
      "stages 1 per_step 2 steps 1 keep 1\n"
      "0F0v0 0Da0 0F1v0 0Da1 0F0v0 0B0v0 0F1v0 0B1v0 0Sv1\n";
  CHECK(facts(recomputed).peak_microbatches == Ints{1});
  CHECK(facts(recomputed).peak_inputs == Ints{2});
}

TEST_CASE("plans that begin later: versions from before the plan", "[verify]") {
  const std::string later =
      "stages 1 per_step 1 steps 1 first 3 keep 2\n"
      "0F3v2 0B3v2 0Sv4\n";
  CHECK(facts(later).staleness == 1);
  CHECK(facts(later).live_versions == Ints{2});
  CHECK(facts(later).versions_in_use == Ints{1});  // 3 is there for the next plan alone
  CHECK(facts(later).fresh_reads == std::vector<std::string>{"0"});
  check_refused(replaced(replaced(later, "F3v2", "F3v1"), "B3v2", "B3v1"), "version", 0, "0F3v1",
                "reads version 1 of stage 0; there: [3]");
  check_refused(replaced(later, "keep 2", "keep 1"), "version", 0, "0F3v2", "there: [3]");
  CHECK(facts(replaced(later, "keep 2", "keep 4")).live_versions == Ints{4});
}

TEST_CASE("evaluations: forwards of one version", "[verify]") {
  const Facts evaluation = facts(
      "stages 2 per_step 2 steps 0 first 5 keep 2\n"
      "0F0v5 0a0>1 0Da0 0F1v5 0a1>1 0Da1\n"
      "0a0<0 1F0v5 1Da0 0a1<0 1F1v5 1Da1\n");
  CHECK(evaluation.peak_microbatches == Ints{1, 1});
  CHECK(evaluation.peak_inputs == Ints{1, 1});
  CHECK(evaluation.messages == Messages{{"a", 2}});
}

TEST_CASE("tied stages: a sum of both ends, and one version for both", "[verify]") {
  CHECK(facts(tied).messages == Messages{{"a", 2}, {"g", 2}, {"reduce", 2}});
  CHECK(facts(tied).staleness == 0);
  const std::string apart = replaced(replaced(tied, "2Rv1@0 ", ""), "2Rv1@0 ", "");
  check_refused(apart, "sum", 0, "2Sv1", "the gradient lacks (stage, microbatch) [(1, 0)]");
  const std::string late = replaced(tied, "1Sv1 2Sv1 0a1<0 1F1v1", "1Sv1 0a1<0 1F1v1 2Sv1");
  check_refused(late, "version", 1, "1F1v1", "reads version 1 of stage 2; there: [0]");
  check_refused(replaced(tied, " 2Sv2\n", "\n"), "end", 0, "", "stage 2 ends at version 1, not 2");
}

TEST_CASE("every schedule's plans verify, and wait for nobody's buffer", "[verify]") {
  int plans = 0;
  for (const auto& [name, schedule] : ordinary_schedules())
    for (int stages : {1, 2, 4})
      for (int width : {1, 3})
        for (int microbatches : {1, 3, 5})
          for (int options = 0; options < 16; options += sanitized ? 5 : 1) {
            const Layout layout{.stages = stages,
                                .width = width,
                                .microbatches = microbatches,
                                .steps = 2,
                                .first = options & 8 ? 3 : 0,
                                .recompute = (options & 1) != 0,
                                .clip = (options & 2) != 0,
                                .tied = (options & 4) != 0};
            INFO(name << " " << stages << " " << width << " " << microbatches << " " << options);
            if (!takes(name, layout)) continue;
            const Plan plan = make_plan(name, layout);
            CHECK(verify(plan).facts().capacity == 0);
            const Plan evaluation = make_evaluation(plan, 7, microbatches * width);
            CHECK(verify(evaluation).facts().capacity == 0);
            plans += 2;
          }
  CHECK(plans > (sanitized ? 500 : 2000));
}
