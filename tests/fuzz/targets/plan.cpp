// A plan's text, through all that `plan` does with it.
#include <nlohmann/json.hpp>

#include "examples/pages/plan_facts.h"
#include "examples/pages/player/player_facts.h"
#include "examples/programs/plan_words.h"
#include "parallel/drawing/draw.h"
#include "parallel/plan/plan.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/variants.h"
#include "parallel/verifier/verify.h"
#include "tests/folders.h"
#include "tests/fuzz/fuzz.h"

namespace plangrad::fuzz {

using namespace examples;
using namespace parallel;

std::vector<std::string> seeds() {
  std::vector<std::string> all;
  for (const Schedule* schedule : schedules()) {
    Layout layout{.stages = 2, .width = 1, .microbatches = 2, .steps = 2};
    layout.clip = schedule->why_no_clip == nullptr;
    all.push_back(print(make_plan(schedule->name, layout)));
    if (const auto endless = make_endless(schedule->name, layout)) all.push_back(print(*endless));
  }
  for (const auto& entry :
       std::filesystem::directory_iterator(tests::clone_path("tests/parallel/plans")))
    all.push_back(read(entry.path()));
  std::sort(all.begin(), all.end());  // a folder has no order
  return all;
}

namespace {

void draw(const Timeline& timeline) {
  draw_text(timeline);
  draw_svg(timeline);
  draw_trace({{"", timeline}});
}

/// What `plan draw` does with a plan that may break rules.
void draw_broken(const Plan& plan) try {
  draw(simulate_two_bodies(plan, Costs()));
} catch (const autograd::Error&) {
}

void use(const VerifiedPlan& verified) {
  all_facts(verified, Costs());
  examples::sentences(verified);
  const Plan& plan = verified.plan();
  must(verify(parse(print(plan))).plan() == plan, "a verified plan is not read back");
  if (plan.is_endless()) verify(unrolled(plan, 3));
}

}  // namespace

void read_input(const std::string& input) {
  const Plan plan = parse(input);
  must(parse(print(plan)) == plan, "a plan is not read back from its text");
  to_json(plan);
  draw_broken(plan);
  answer(nlohmann::json{{"text", input}}.dump(-1, ' ', false,
                                              nlohmann::json::error_handler_t::replace));
  try {
    use(verify(plan));
  } catch (const PlanError& error) {
    to_json(error);
    if (error.rank >= 0) draw_fault(plan, error.rank, error.index, error.what(), Costs());
    throw;
  }
}

}  // namespace plangrad::fuzz
