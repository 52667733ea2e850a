// Times are whole ticks, a hundred-thousandth of the recorded time, and cells are text of the plan:
// a cell is about 20 bytes of the page.
// Chapter 06.
#include "parallel/session/report_window.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "parallel/drawing/breakdown_table.h"
#include "parallel/session/report_cells.h"
#include "parallel/session/report_late.h"
#include "parallel/session/report_memory.h"
#include "parallel/session/report_metrics.h"
#include "parallel/session/report_wire.h"
#include "parallel/simulation/pretended.h"
#include "parallel/simulation/steady_state.h"

namespace plangrad::parallel {
using nlohmann::json;

namespace {

/// A timeline of the recorded updates, and where its time goes.
struct TimedVersion {
  std::string key;
  Timeline timeline;
  Breakdown time;
};

Costs costs_of(const RecordedUpdates& recorded, const RecordingContext& context) {
  const Costs costs = measured_costs(recorded.plan, recorded.timeline);
  return context.pretended ? context.pretended->instead_of(costs, recorded.plan) : costs;
}

std::vector<TimedVersion> versions_of(const RecordedUpdates& recorded, const VerifiedPlan& plan,
                                      const Costs& costs, const RecordingContext& context) {
  std::vector<TimedVersion> versions;
  auto add = [&](const char* key, Timeline timeline) {
    const Breakdown time = breakdown(recorded.plan, timeline);
    versions.push_back({key, std::move(timeline), time});
  };
  add("measured", recorded.timeline);
  add("simulated", simulate(plan, costs));
  if (context.shared && !(context.pretended && context.pretended->computes()))
    add("own_cores", on_own_cores(plan, recorded.timeline, costs));
  return versions;
}

/// Seconds of each rank's computations in which their threads had no core.
std::vector<TimeParts> times_without_core(const Timeline& measured) {
  std::vector<TimeParts> result(measured.ranks);
  for (const Record& record : measured.records) {
    if (record.lane != Lane::compute || !is_compute(record.instruction)) continue;
    TimeParts& rank = result.at(record.rank);
    const double seconds = std::max(record.end - record.start - record.cpu, 0.0);
    (makes_version(record.instruction) ? rank.update : rank.compute) += seconds;
    if (begins_pass(record.instruction)) rank.forward += seconds;
  }
  return result;
}

/// Seconds of each rank by part, in the order that the page names.
///   without_core: a part of the computations; empty: their threads always had one
json bars_of(const Breakdown& time, const std::vector<TimeParts>& without_core = {}) {
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

/// The state that each rank would keep at every level of ZeRO; null if no level would change it, or
/// if the optimizer's bytes for an element are not known, since the recorded state is pruned.
json levels_json(const VerifiedPlan& plan, const RecordingContext& context, const json& memory) {
  const auto optimizer = static_cast<int>(autograd::Category::optimizer);
  double kept = 0, elements = 0;
  for (const StateBytes& rank : state_at_level(plan, context.training, plan.plan().sharded, 1))
    elements += rank.optimizer;
  for (const json& peak : memory["peaks"]) kept += peak[optimizer].get<double>();
  const double each = elements > 0 ? 4 * std::round(kept / elements / 4) : 0;
  if (std::abs(kept - each * elements) > 0.02 * elements) return nullptr;  // pruned
  json result = json::array();
  for (int level = 0; level <= 3; ++level) {
    json line = json::array();
    for (const StateBytes& rank : state_at_level(plan, context.training, level, each))
      line.push_back(
          {std::llround(rank.weights), std::llround(rank.gradients), std::llround(rank.optimizer)});
    result.push_back(line);
  }
  return result.front() == result.back() ? json() : result;
}

json summary_of(const RecordedUpdates& recorded, const Costs& costs,
                const std::vector<TimedVersion>& versions) {
  const double step = time_step(recorded.timeline);
  json result{
      {"recorded_updates", {recorded.plan.first + 1, recorded.plan.first + recorded.plan.steps}},
      {"peak_activation_bytes", peak_of_all_ranks(recorded.memory, "activations")},
      {"time_step_seconds", step},
      {"largest_burst_bytes",
       largest_burst(inner_sendings(recorded.plan, recorded.timeline), step)}};
  for (const TimedVersion& version : versions) {
    result["bubble"][version.key] = version.timeline.bubble();
    result["breakdown"][version.key] = to_json(version.time);
    result["update_seconds"][version.key] = version.timeline.makespan() / recorded.plan.steps;
  }
  if (recorded.endless) {
    const SteadyState steady = steady_state(*recorded.endless, costs);
    result["bubble"]["steady_state"] = steady.bubble;
    result["update_seconds"]["steady_state"] = steady.seconds;
  }
  return result;
}

/// The cells of one update in the middle: neither the first, for which ranks wait at the start, nor
/// the last, after which they drain.
json cells_of(const RecordedUpdates& recorded, const std::vector<TimedVersion>& versions) {
  const Timeline& measured = versions[0].timeline;
  const Timeline& planned = versions[1].timeline;
  const int version = recorded.plan.first + 1 + recorded.plan.steps / 2;
  const UpdateSpan spans[] = {span_of_update(recorded.plan, measured, version),
                              span_of_update(recorded.plan, planned, version)};
  json result = cells_json(recorded.plan, measured, planned, spans[0]);
  for (auto [key, span] : {std::pair("measured", spans[0]), {"planned", spans[1]}})
    result["update"][key] = {rounded(span.begin, 6), rounded(span.end, 6)};
  result["update"]["version"] = version;
  const WaitGraph graph(recorded.plan, measured);
  if (const auto late = first_late(recorded.plan, graph, measured, spans[0], planned, spans[1]))
    result["late"] = {{"rank", late->rank},
                      {"cell", print(late->computation)},
                      {"words", words_of(late->computation)},
                      {"begin", rounded(late->begin, 6)},
                      {"seconds", rounded(late->seconds, 3)},
                      {"why", late->why}};
  return result;
}

}  // namespace

RecordedFacts facts_of(const RecordedUpdates& recorded, const RecordingContext& context) {
  const VerifiedPlan plan = verify(recorded.plan);
  const Costs costs = costs_of(recorded, context);
  const std::vector<TimedVersion> versions = versions_of(recorded, plan, costs, context);
  RecordedFacts facts;
  facts.planned = versions[1].timeline;
  facts.summary = summary_of(recorded, costs, versions);
  if (versions.back().key == "own_cores")
    facts.about_times = about_times(context.shared, recorded.timeline, versions.back().timeline);

  facts.page = {{"since", recorded.since},
                {"first", recorded.plan.first + 1},
                {"last", recorded.plan.first + recorded.plan.steps},
                {"overlaps", recorded.plan.overlaps_updates()},
                {"level", recorded.plan.sharded},
                {"parts",
                 {"forward", "backward", "update", "has no core", "waits for another rank",
                  "point-to-point", "collectives", "other"}}};
  std::vector<TimeParts> without_core;
  if (versions.back().key == "own_cores") {
    without_core = times_without_core(recorded.timeline);
    double seconds = 0;
    for (const TimeParts& rank : without_core) seconds += rank.compute + rank.update;
    facts.summary["bubble"]["without_core"] =
        seconds / (recorded.timeline.ranks * recorded.timeline.makespan());
  }
  for (const TimedVersion& version : versions) {
    facts.page["bars"][version.key] =
        bars_of(version.time, version.key == "measured" ? without_core : std::vector<TimeParts>());
    facts.page["seconds"][version.key] = rounded(version.timeline.makespan(), 5);
    facts.page["bubble"][version.key] = rounded(version.timeline.bubble(), 5);
    facts.page["path"][version.key] = describe(critical_path(recorded.plan, version.timeline));
  }
  std::vector<int> shown;
  for (const std::vector<int>& ranks : shown_ranks(recorded.plan)) shown.push_back(ranks.front());
  facts.page["cells"] = cells_of(recorded, versions);
  facts.page["memory"] =
      memory_json(recorded.memory, recorded.timeline.ranks, shown, recorded.timeline.makespan());
  facts.page["levels"] = levels_json(plan, context, facts.page["memory"]);
  facts.page["wire"] = wire_json(recorded.plan, recorded.timeline, context.training);
  return facts;
}

}  // namespace plangrad::parallel
