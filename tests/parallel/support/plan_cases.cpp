// The plans of the golden files, and some that schedules make.
#include "tests/parallel/support/plan_cases.h"

#include <fstream>

#include "autograd/error.h"
#include "parallel/schedules/schedule.h"
#include "tests/catch.h"
#include "tests/folders.h"

namespace plangrad::tests {

using namespace parallel;

std::string plan_text(const std::string& name) {
  std::ifstream in(clone_path("tests/parallel/plans/") + name + ".plan");
  PG_CHECK(in, "there is no tests/parallel/plans/", name, ".plan");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

std::string golden(const std::string& name) {
  std::string text = plan_text(name);
  return text.substr(text.find('\n') + 1);
}

std::vector<PlanCase> good_plans() {
  auto synchronous = [](int per_step) {
    return [per_step](int, int micro) { return micro / per_step; };
  };
  auto delayed = [](int per_step) {
    return [per_step](int, int micro) { return std::max(micro / per_step - 1, 0); };
  };
  auto cyclic_v2 = [](int stage, int micro) {
    const int step = micro / 3, fresh = micro % 3 + stage >= 2;
    return std::max(step - 1 + fresh, 0);
  };
  auto stashed = [](int stages, int width) {
    return [=](int stage, int micro) { return std::max(micro / width - (stages - 1 - stage), 0); };
  };
  auto drifting = [](const Layout& layout) {
    return [=](int stage, int micro) {
      const int m = layout.microbatches, index = micro / layout.per_step() * m + micro % m;
      return std::max((index - (layout.stages - 1 - stage)) / m, layout.first);
    };
  };
  std::vector<PlanCase> cases{
      {"2bw", parse(plan_text("2bw")), delayed(3)},
      {"cyclic_v2_data", parse(plan_text("cyclic_v2_data")), cyclic_v2},
      {"cyclic_v2_pipeline", parse(plan_text("cyclic_v2_pipeline")), cyclic_v2},
      {"cyclic_v2_model", parse(plan_text("cyclic_v2_model")), cyclic_v2},
      {"cyclic_v2_zero", parse(plan_text("cyclic_v2_zero")), cyclic_v2},
      {"zero_3", parse(plan_text("zero_3")), synchronous(2)},
      {"zero_1_clip", parse(plan_text("zero_1_clip")), synchronous(2)},
      {"interleaved", parse(plan_text("interleaved")), synchronous(2)},
      {"zero_bubble", parse(plan_text("zero_bubble")), synchronous(3)}};
  const Layout all_options{.stages = 3,
                           .width = 2,
                           .microbatches = 2,
                           .steps = 3,
                           .first = 2,
                           .recompute = true,
                           .clip = true,
                           .tied = true};
  cases.push_back({"2bw, all options", make_plan("2bw", all_options), delayed(4)});
  cases.push_back({"gpipe, all options", make_plan("gpipe", all_options), synchronous(4)});
  const Layout deep{.stages = 4, .width = 1, .microbatches = 3, .steps = 2, .first = 1};
  cases.push_back({"1f1b", make_plan("1f1b", deep), synchronous(3)});
  const Layout stashing{
      .stages = 4, .width = 2, .microbatches = 3, .steps = 2, .first = 1, .tied = true};
  cases.push_back({"pipedream, tied", make_plan("pipedream", stashing), stashed(4, 2)});
  const Layout wide{.stages = 2, .width = 3, .microbatches = 2, .steps = 2, .clip = true};
  cases.push_back({"data", make_plan("data", wide), synchronous(6)});
  const Layout clipped{.stages = 4, .steps = 3, .first = 1, .clip = true};
  cases.push_back({"cyclic-v1, clipped", make_plan("cyclic-v1", clipped), delayed(4)});
  const Layout travelling{.stages = 3, .steps = 3, .setting = Setting::zero};
  cases.push_back({"cyclic-v2, zero", make_plan("cyclic-v2", travelling), cyclic_v2});
  const Layout stashless{.stages = 4, .microbatches = 1, .steps = 8};
  cases.push_back(
      {"paci, m = 1", make_plan("paci", stashless), drifting(stashless), synchronous(1)});
  cases.push_back(
      {"paci, all options", make_plan("paci", all_options), drifting(all_options), synchronous(4)});
  const Layout sharded{.stages = 2, .width = 3, .microbatches = 2, .steps = 2, .zero = 2};
  cases.push_back({"data, zero 2", make_plan("data", sharded), synchronous(6)});
  const Layout folded{.stages = 4, .microbatches = 3, .steps = 2, .clip = true};
  cases.push_back({"zb-v, clipped", make_plan("zb-v", folded), synchronous(3)});
  const Layout twice{.stages = 2, .microbatches = 4, .steps = 2, .tied = true, .zero = 1};
  cases.push_back({"dualpipe, zero 1", make_plan("dualpipe", twice), synchronous(4)});
  return cases;
}

std::string replaced(std::string text, const std::string& from, const std::string& to,
                     const std::string& after) {
  const std::size_t begin = text.find(after);
  REQUIRE(begin != text.npos);
  const std::size_t at = text.find(from, begin);
  REQUIRE(at != text.npos);
  return text.replace(at, from.size(), to);
}

PlanError check_broken(const std::string& text, const std::string& rule,
                       const std::string& words) try {
  verify(parse(text));
  throw autograd::Error("accepted, but it breaks the rule " + rule);
} catch (const PlanError& error) {
  INFO(error.what());
  CHECK(error.rule == rule);
  CHECK_THAT(error.what(), Contains(words));
  return error;
}

void check_refused(const std::string& text, const std::string& rule, int rank,
                   const std::string& cell, const std::string& words) {
  const PlanError error = check_broken(text, rule, words);
  CHECK(error.rank == rank);
  if (error.rank < 0) return;
  const bool is_cell = error.index >= 0;
  CHECK((is_cell ? print(parse(text).rows[error.rank][error.index]) : "") == cell);
  CHECK_THAT(error.what(), Contains("\n  rank " + std::to_string(rank) + ":"));
  CHECK_THAT(error.what(), Contains(is_cell ? "[" + cell + "]" : "[end]"));
}

}  // namespace plangrad::tests
