// Chooses what a figure shows: lanes, shards, the cell that breaks a rule. Chapters 06 to 09.
#include "examples/programs/plan_figure.h"

#include <nlohmann/json.hpp>

#include "examples/pages/plan_facts.h"
#include "examples/pages/player/player_facts.h"
#include "examples/pages/player/player_page.h"
#include "examples/programs/program.h"
#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/observers/recording.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/plan/plan.h"
#include "parallel/simulation/breakdown.h"
#include "parallel/simulation/simulate.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

using namespace parallel;

namespace {

/// Adds lanes to a figure, and a note on what ranks hold of a sharded plan.
///   lanes: "versions" of weights, or all "holdings"; empty: none
void add_lanes(FigureOptions& figure, const std::string& lanes, const Plan& plan,
               const Timeline& timeline) {
  if (plan.sharded > 0) figure.note = shards_in_words(plan);
  if (lanes.empty()) return;
  figure.held = holdings(plan, timeline);
  const Hold last =
      lanes == "versions" ? Hold::copy : Hold::sum_shard;  // not what passes to others
  std::erase_if(figure.held, [&](const Holding& h) { return h.hold > last; });
}

/// Draws the figure of a plan up to the cell that breaks a rule. Empty if the rule blames no cell,
/// or one that makes no sense.
std::string draw_fault(const Plan& plan, const PlanError& error, const Costs& costs,
                       const FigureOptions& figure) {
  if (error.rank < 0 || error.rule == "shape") return "";
  const int end = static_cast<int>(plan.rows[error.rank].size());
  return parallel::draw_fault(plan, error.rank, error.index < 0 ? end : error.index, error.what(),
                              costs, figure);
}

/// The plan that a drawing shows: of an endless one, head, two bodies and tail.
Plan drawn(const Plan& plan) { return plan.is_endless() ? unrolled(plan, 2) : plan; }

/// Makes the plan player's page with this plan, also with one that breaks a rule.
std::string page(const PlanRequest& request, const Plan& plan) {
  const std::string asked =
      player_request(request.schedule, plan, with_backward(request.costs.costs)).dump();
  return player_page({{asked, request.critical_path}}, request.command, request.game);
}

/// Verifies the plan. A figure shows where a wrong one stops.
VerifiedPlan verified_or_drawn(const PlanRequest& request, const Plan& plan) {
  try {
    return verify(plan);
  } catch (const PlanError& error) {
    const std::string& out = request.out;
    const std::string drawing =
        out.ends_with(".html")  ? page(request, plan)
        : out.ends_with(".svg") ? draw_fault(plan, error, request.costs.of(plan), request.figure)
                                : "";
    const char* what = ": what runs before the cell that breaks a rule";
    if (!drawing.empty()) write_result(out, drawing, request.json ? "" : text("wrote ", out, what));
    throw;
  }
}

}  // namespace

std::string typed_command(int argc, char** argv) {
  std::string words = "plan";
  for (int i = 1; i < argc; ++i)
    if (const std::string word = argv[i]; word == "--out")
      ++i;
    else if (!word.starts_with("--out="))
      words += ' ' + shell_word(word);
  return words;
}

void draw_plan(const PlanRequest& asked_for, const Plan& plan) {
  PlanRequest request = asked_for;
  PG_CHECK(!request.json || !request.out.empty(),
           "--json prints the facts; the drawing needs a file: give --out FILE");
  PG_CHECK(!request.game || request.form() == "html", "--game is a page's: give --out FILE.html");
  const FigureOptions usual, &asked = request.figure;
  const char* flag = asked.alive                      ? "--alive"
                     : asked.seconds != usual.seconds ? "--seconds"
                     : asked.width != usual.width     ? "--width"
                     : !request.lanes.empty()         ? "--lanes"
                                                      : nullptr;
  PG_CHECK(!flag || request.form() == "svg", flag,
           " changes a figure; add --out FILE.svg, or leave out ", flag);
  PG_CHECK(!request.critical_path || request.form() == "svg" || request.form() == "html",
           "--critical-path marks cells of a figure or page; add --out FILE.svg or FILE.html, or ",
           "leave out --critical-path");
  const VerifiedPlan verified = verified_or_drawn(request, plan);
  const Costs costs = request.costs.of(verified.plan());
  const Timeline timeline = simulate_two_bodies(verified.plan(), costs);
  constexpr std::size_t most = 1 << 18;  // records that a page can show; traces have readers
  PG_CHECK(timeline.records.size() <= most || request.form() != "html", "a page of ",
           timeline.records.size(), " cells would be too large to open, and ", most,
           " are possible: draw fewer steps, or a figure (.svg) or trace (.json)");
  add_lanes(request.figure, request.lanes, in_order(drawn(plan), costs), timeline);
  if (request.critical_path) request.figure.path = critical_path(drawn(plan), timeline).records;
  const std::string form = request.form();
  const std::string drawing = form == "svg"    ? draw_svg(timeline, request.figure)
                              : form == "html" ? page(request, plan)
                              : form == "json" ? draw_trace({{"", timeline}})
                                               : draw_text(timeline, request.columns);
  if (request.out.empty() && form == "txt") return print_text(drawing);
  if (request.out.empty()) return void(std::cout << drawing);
  const std::string line = text("wrote ", request.out, ": ", request.title(), ", makespan ",
                                seconds_text(timeline.makespan()),
                                plan.is_endless() ? " of head, two bodies and tail" : "");
  write_result(request.out, drawing, request.json ? "" : line);
  if (!request.json) return;
  nlohmann::json all = all_facts(verified, costs);
  all["file"] = request.out;
  print_json(all);
}

}  // namespace plangrad::examples
