// From a request to a plan, its timeline, and the answer's parts. Chapter 06.
#include "examples/pages/player/player_facts.h"

#include <nlohmann/json.hpp>

#include "autograd/error.h"
#include "examples/pages/plan_facts.h"
#include "examples/pages/player/ideas.h"
#include "examples/pages/player/player_parts.h"
#include "examples/pages/player/request.h"
#include "parallel/plan/plan.h"
#include "parallel/simulation/breakdown.h"
#include "parallel/simulation/variants.h"

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

/// The cell of an endless plan that a cell of its unrolled row was written as.
int written_cell(const Plan& plan, int rank, int cell) {
  if (!plan.is_endless()) return cell;
  const auto [first, second] = plan.bars[rank];
  const int body = second - first;
  return cell < second ? cell : cell - body;
}

/// The first of the cells of the unrolled row that a written cell becomes.
int unrolled_cell(const Plan& plan, int rank, int cell) {
  if (!plan.is_endless() || rank < 0 || cell < plan.bars[rank].second) return cell;
  return cell + plan.bars[rank].second - plan.bars[rank].first;
}

/// For each record its cell in the row as written; rows of message-driven plans run out of order.
std::vector<int> cells_as_written(const Plan& plan, const Plan& ran) {
  std::vector<int> cells;
  for (int rank = 0; rank < ran.ranks(); ++rank) {
    if (plan.in_flight == 0) {
      for (int cell = 0; cell < static_cast<int>(ran.rows[rank].size()); ++cell)
        cells.push_back(written_cell(plan, rank, cell));
      continue;
    }
    std::vector<bool> used(plan.rows[rank].size());
    for (const Instruction& x : ran.rows[rank]) {
      std::size_t cell = 0;
      while (used[cell] || plan.rows[rank][cell] != x) ++cell;
      used[cell] = true;
      cells.push_back(static_cast<int>(cell));
    }
  }
  return cells;
}

/// A plan that the verifier accepts: all of its facts.
void add_verified(const VerifiedPlan& verified, const Costs& costs,
                  const std::vector<ShownModel>& models, Json& out) {
  const Plan& plan = verified.plan();
  Scene scene;
  scene.ran = in_order(plan.is_endless() ? unrolled(plan, 2) : plan, costs);
  scene.timeline = simulate_two_bodies(plan, costs);
  const WaitGraph waits(scene.ran, scene.timeline);
  scene.written = cells_as_written(plan, scene.ran);
  const int cells = static_cast<int>(scene.timeline.records.size());
  scene.causes.assign(cells, -1);
  for (int cell = 0; cell < cells; ++cell)
    if (waits.record(cell) != WaitGraph::none)
      if (const int cause = waits.cause(cell); cause != WaitGraph::none)
        scene.causes[waits.record(cell)] = waits.record(cause);
  out["facts"] = all_facts(verified, costs);
  constexpr const char* units[] = {"count", "share", "seconds", "bytes"};
  for (const PlanFact& fact : plan_facts())
    if (fact.about)
      out["table"].push_back(
          {fact.name, fact.about, fact.place, units[static_cast<int>(fact.unit)]});
  if (plan.sharded > 0) out["idea"] = text_of(out["idea"]) + ' ' + shards_in_words(plan) + '.';
  add_scene(scene, models, out);
}

/// The plan without what follows cells that have no meaning; those of a header can't be left out.
bool cut_to_meaning(Plan& plan, int& rank, int& index) {
  constexpr int most_cuts = 64;
  for (int cut = 0; cut < most_cuts; ++cut) {
    try {
      simulate_until_blocked(plan, Costs(), -1, -1);
      return true;
    } catch (const PlanError& error) {
      if (error.rank < 0 || error.index < 0) return false;
      plan.rows[error.rank].resize(error.index);
    }
  }
  rank = index = -1;
  return false;
}

/// A plan that breaks a rule: its picture up to the fault.
void add_broken(const Plan& written, const Costs& costs, const PlanError& error,
                const std::vector<ShownModel>& models, Json& out) {
  Plan plan = written.is_endless() ? unrolled(written, 2) : written;
  plan.in_flight = 0;
  int rank = error.rank, index = unrolled_cell(written, error.rank, error.index);
  const bool hangs = error.rule == "hang";
  if (!cut_to_meaning(plan, rank, index)) return;
  if (rank >= 0 && index >= static_cast<int>(plan.rows[rank].size())) index = -1;
  PartialTimeline partial = simulate_until_blocked(plan, costs, hangs ? -1 : rank, index);
  for (int each = 0; each < plan.ranks(); ++each)
    if (partial.stopped[each] >= 0)
      partial.stopped[each] = written_cell(written, each, partial.stopped[each]);
  Scene scene{plan, std::move(partial.timeline), {}, partial.causes};
  for (const Record& record : scene.timeline.records)
    scene.written.push_back(written_cell(written, record.rank, record.cell));
  out["stopped"] = partial.stopped;
  add_scene(scene, models, out);
}

void add_facts(const Plan& plan, const PlayerRequest& request, Json& out) {
  const Costs costs = request.costs_of(plan);
  out["places"] = places_json(out["text"], plan);
  out["header"] = header_json(plan);
  try {
    add_verified(verify(plan), costs, request.models, out);
  } catch (const PlanError& error) {
    out["facts"] = nullptr;
    out["error"] = to_json(error);
    out["error"]["place"] = place_of(out["text"], error.rank, error.index);
    try {
      add_broken(plan, costs, error, request.models, out);
    } catch (const autograd::Error&) {
      // Nothing of it can be drawn; the sentence is the answer.
    }
  }
}

/// The sentences about a schedule, which a plan's text may be of.
void add_idea(const PlayerRequest& request, Json& out) {
  const PlanSpec& spec = request.schedule.empty() ? request.of : request;
  const Idea* idea = find_idea(spec.schedule);
  out["schedule"] = request.schedule;
  out["title"] = !request.title.empty()   ? request.title
                 : !spec.schedule.empty() ? spec.title()
                                          : "a plan of your own";
  out["idea"] = idea ? idea->sentence : "";
  out["paper"] = idea ? idea->paper : "";
  out["formula"] = nullptr;
  if (spec.schedule.empty()) return;
  const Schedule& schedule = find_schedule(spec.schedule);
  out["note"] = schedule.note ? schedule.note(with_defaults(schedule, spec.layout)) : "";
  if (spec.endless) return;
  if (const auto formula = bubble_formula(spec.schedule, spec.layout))
    out["formula"] = {{"letters", formula->letters},
                      {"numbers", formula->numbers},
                      {"where", formula->where},
                      {"value", formula->value}};
}

Json error_json(const char* rule, const std::string& message) {
  return {{"verified", false}, {"rule", rule}, {"rank", -1}, {"index", -1}, {"message", message}};
}

Json answer_json(const std::string& text) {
  Json out = {{"facts", nullptr}};
  const char* rule = "request";
  try {
    const Json json = Json::parse(text);
    const PlayerRequest request = read_request(json);
    rule = request.schedule.empty() ? "text" : "schedule";
    if (request.schedule.empty()) out["text"] = request.text;
    add_idea(request, out);
    const Plan plan =
        request.schedule.empty() ? parse(request.text) : request.plan_with(request.layout);
    if (!request.schedule.empty()) out["text"] = print(plan);
    rule = "costs";
    add_facts(plan, request, out);
  } catch (const std::exception& error) {
    out["error"] = error_json(rule, error.what());
    if (rule == std::string("text")) out["error"]["place"] = place_of_bad_word(out["text"]);
  }
  return out;
}

}  // namespace

std::string answer(const std::string& request) {
  try {
    return answer_json(request).dump(-1, ' ', false, Json::error_handler_t::replace);
  } catch (const std::exception& error) {  // as out of memory
    return R"({"facts":null,"error":{"verified":false,"rule":"request","rank":-1,"index":-1,)"
           R"("message":"the answer is too large; ask for a smaller plan"}})";
  }
}

}  // namespace plangrad::examples
