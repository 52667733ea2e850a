// Times are whole ticks, a hundred-thousandth of the recorded time, and cells are text of the plan:
// a cell is about 20 bytes of the page. Chapter 06.
#include "examples/pages/report_window.h"

#include "examples/pages/breakdown_words.h"
#include "examples/pages/metrics_table.h"
#include "examples/pages/report_cells.h"
#include "examples/pages/report_memory.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {
using nlohmann::json;

namespace {

/// Seconds of each rank by part, in the order that the page names.
///   without_core: a part of the computations; empty: their threads always had one
json bars_of(const Breakdown& time, const std::vector<TimeParts>& without_core) {
  json result = json::array();
  for (std::size_t i = 0; i < time.ranks.size(); ++i) {
    const TimeParts& rank = time.ranks[i];
    const TimeParts none = without_core.empty() ? TimeParts() : without_core[i];
    json line;
    for (double part :
         {rank.forward - none.forward, rank.compute - rank.forward - (none.compute - none.forward),
          rank.update - none.update, none.compute + none.update, rank.waiting - rank.other,
          rank.point_to_point, rank.collective, rank.other})
      line.push_back(rounded(std::max(part, 0.0), 4));
    result.push_back(line);
  }
  return result;
}

/// The cells of one update in the middle: neither the first, for which ranks wait at the start, nor
/// the last, after which they drain.
json cells_of(const RecordedUpdates& recorded, const RecordedFacts& facts) {
  const Timeline& measured = recorded.timeline;
  const Timeline& simulated = facts.simulated();
  const int version = recorded.plan.first + 1 + recorded.plan.steps / 2;
  const UpdateSpan spans[] = {span_of_update(recorded.plan, measured, version),
                              span_of_update(recorded.plan, simulated, version)};
  json result = cells_json(recorded.plan, measured, simulated, spans[0]);
  for (auto [key, span] : {std::pair("measured", spans[0]), {"simulated", spans[1]}})
    result["update"][key] = {rounded(span.begin, 6), rounded(span.end, 6)};
  result["update"]["version"] = version;
  result["update"]["micros"] = recorded.plan.per_step;
  const WaitGraph graph(recorded.plan, measured);
  if (const auto late = first_late(recorded.plan, graph, measured, spans[0], simulated, spans[1]))
    result["late"] = {{"rank", late->rank},
                      {"cell", print(late->computation)},
                      {"words", words_of(late->computation)},
                      {"begin", rounded(late->begin, 6)},
                      {"seconds", rounded(late->seconds, 3)},
                      {"why", late->why}};
  return result;
}

/// Kinds of planned memory, in the order of the categories that are measured: they share colours.
constexpr Memory kinds_by_category[] = {Memory::weights,     Memory::sums,     Memory::optimizer,
                                        Memory::activations, Memory::messages, Memory::workspace,
                                        Memory::pruning};
static_assert(std::size(kinds_by_category) == memory_kinds);

}  // namespace

json window_json(const RecordedUpdates& recorded, const RecordedFacts& facts,
                 const ModelCosts& model, const Summing& sums) {
  const Plan& plan = recorded.plan;
  json page{{"since", recorded.since},
            {"first", plan.first + 1},
            {"last", plan.first + plan.steps},
            {"overlaps", plan.overlaps_updates()},
            {"level", plan.sharded},
            {"parts",
             {"forward", "backward", "update", "has no core", "waits for another rank",
              "point-to-point", "collectives", "other"}}};
  for (const TimedVersion& version : facts.versions) {
    page["bars"][version.key] = bars_of(
        version.time, version.key == "measured" ? facts.without_core : std::vector<TimeParts>());
    page["seconds"][version.key] = rounded(version.timeline.makespan(), 5);
    page["bubble"][version.key] = rounded(version.timeline.bubble(), 5);
    page["path"][version.key] = describe(critical_path(plan, version.timeline));
  }
  std::vector<int> shown;
  for (const std::vector<int>& ranks : shown_ranks(plan)) shown.push_back(ranks.front());
  page["cells"] = cells_of(recorded, facts);
  page["memory"] =
      memory_json(recorded.memory, recorded.timeline.ranks, shown, recorded.timeline.makespan());
  page["levels"] = levels_json(recorded, model, sums);
  for (const Memory kind : kinds_by_category) page["kinds"].push_back(name_of(kind));
  page["wire"] = wire_json(plan, recorded.timeline, model);
  return page;
}

}  // namespace plangrad::examples
