// Facts are JSON first; words, comparisons and the page follow from it by the table.
// Not here: the table (fact_words.cpp). Chapter 06.
#include "examples/pages/plan_facts.h"

#include <nlohmann/json.hpp>
#include <numeric>

#include "examples/pages/breakdown_words.h"
#include "examples/pages/time_steps.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

/// The most that each rank keeps between forwards and backwards, in microbatches of the whole
/// model, if all stages are alike: a measure for ranks with one stage and with several.
std::vector<double> peak_models(const Facts& facts, int stages) {
  std::vector<double> peaks;
  for (int kept : facts.peak_microbatches) peaks.push_back(1.0 * kept / stages);
  return peaks;
}

std::vector<double> totals(const std::vector<MemoryLevel>& levels) {
  std::vector<double> bytes;
  for (const MemoryLevel& level : levels) bytes.push_back(level.total());
  return bytes;
}

/// The most bytes of stages' outputs that each rank keeps between forwards and backwards.
std::vector<double> peak_outputs(const Plan& plan, const std::vector<double>& bytes) {
  Sizes outputs;
  outputs.activations = bytes;
  std::vector<Holding> held = holdings(plan, in_row_order(plan));
  std::erase_if(held, [](const Holding& each) { return each.hold != Hold::activations; });
  return totals(memory_peaks(plan, held, outputs));
}

Json memory_of(const Plan& plan, const Timeline& timeline, const Costs& costs, const Sizes& sizes) {
  const Plan ran = in_order(plan, costs);
  const std::vector<MemoryLevel> peaks = memory_peaks(ran, holdings(ran, timeline), sizes);
  return memory_json(totals(peaks), *std::ranges::max_element(peaks, {}, &MemoryLevel::total));
}

}  // namespace

std::string shards_in_words(const Plan& plan) {
  constexpr const char* state[] = {"the optimizer's state", "gradients and the optimizer's state",
                                   "weights, gradients and the optimizer's state"};
  return text("ZeRO ", plan.sharded, ": a rank keeps 1/", holders(plan).front().size(), " of ",
              state[plan.sharded - 1]);
}

std::vector<double> busy_shares(const Timeline& timeline) {
  std::vector<double> busy(timeline.ranks);
  for (const Record& record : timeline.records)
    if (record.lane == Lane::compute) busy[record.rank] += record.end - record.start;
  const double makespan = timeline.makespan();
  for (double& seconds : busy) seconds = makespan > 0 ? seconds / makespan : 0;
  return busy;
}

Json bytes_by_kind(const MemoryLevel& level) {
  Json bytes = Json::object();
  for (int kind = 0; kind < memory_kinds; ++kind)
    if (level.bytes[kind] > 0) bytes[name_of(Memory(kind))] = level.bytes[kind];
  return bytes;
}

Json memory_json(const std::vector<double>& peaks, const MemoryLevel& fullest) {
  const auto rank = std::ranges::max_element(peaks) - peaks.begin();
  return {{"peaks", peaks}, {"fullest", {{"rank", rank}, {"bytes", bytes_by_kind(fullest)}}}};
}

Json facts_of(const VerifiedPlan& verified) {
  const Facts& facts = verified.facts();
  const Plan& plan = verified.plan();
  Json result{{"verified", true},
              {"hang_free", true},
              {"ranks", plan.ranks()},
              {"stages", plan.stages},
              {"steps", plan.steps},
              {"per_step", plan.per_step},
              {"channel_capacity", facts.capacity},
              {"staleness", facts.staleness},
              {"drift", facts.drift},
              {"live_versions", facts.live_versions},
              {"versions_in_use", facts.versions_in_use},
              {"fresh_reads", facts.fresh_reads},
              {"peak_microbatches", facts.peak_microbatches},
              {"peak_inputs", facts.peak_inputs},
              {"stages_held", held_stages(plan)},
              {"peak_models", peak_models(facts, plan.stages)},
              {"messages", facts.messages}};
  if (plan.is_endless()) result["period"] = plan.period;
  return result;
}

Json times_of(const VerifiedPlan& verified, const Costs& costs, const Timeline& timeline) {
  Json result{{"makespan", timeline.makespan()},
              {"bubble", timeline.bubble()},
              {"busy", busy_shares(timeline)},
              {"bytes", timeline.bytes()}};
  if (verified.plan().is_endless()) {
    const SteadyState steady = steady_state(verified, costs);
    result["steady_state"] = {{"seconds_per_update", steady.seconds}, {"bubble", steady.bubble}};
  }
  const Sizes sizes = sizes_of(costs);
  if (!sizes.any()) return result;
  result["memory"] = memory_of(verified.plan(), timeline, costs, sizes);
  if (std::ranges::max(sizes.output) > 0)
    result["peak_outputs"] = peak_outputs(verified.plan(), sizes.output);
  return result;
}

Json time_steps_of(const Plan& plan, const Timeline& timeline) {
  const TimeSteps steps = time_steps(plan, timeline);
  const auto middle = [&](const auto& count) {
    return std::vector(count.begin() + steps.first, count.begin() + steps.last);
  };
  std::vector<int> visits;  // of each stage, in each time step in the middle of the plan
  for (const std::vector<int>& computed : middle(steps.computations))
    visits.insert(visits.end(), computed.begin(), computed.end());
  const auto [least, most] = std::minmax_element(visits.begin(), visits.end());
  const double sum = std::accumulate(visits.begin(), visits.end(), 0.0);
  return {{"peak_activations", std::ranges::max(steps.alive)},
          {"time_steps",
           {{"seconds", steps.length},
            {"first", steps.first},
            {"activations", middle(steps.alive)},
            {"gradient_sums", middle(steps.sums)},
            {"values", middle(steps.values)},
            {"bytes", middle(steps.bytes)},
            {"visits_of_a_stage", {{"least", *least}, {"most", *most}}},
            {"mean_visits", sum / static_cast<double>(visits.size())}}}};
}

Json all_facts(const VerifiedPlan& verified, const Costs& costs) {
  const Plan& plan = verified.plan();
  const Timeline timeline = simulate(verified, costs);
  Json all = facts_of(verified);
  all.update(times_of(verified, costs, timeline));
  all["breakdown"] = to_json(breakdown(plan, timeline));
  all["critical_path"] = to_json(critical_path(plan, timeline));
  if (uncounted(plan, timeline).empty()) all.update(time_steps_of(plan, timeline));
  return all;
}

nlohmann::json header_of(const Plan& plan) {
  nlohmann::json header;
  Plan::for_each_entry(plan, [&](const char* key, const auto& value) {
    if constexpr (std::is_same_v<decltype(value), const CodecSpec&>)
      header[key] = print(value);
    else
      header[key] = value;
  });
  return header;
}

nlohmann::json to_json(const Plan& plan) {
  nlohmann::json rows = nlohmann::json::array();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<std::string> words;
    for (const Instruction& x : plan.rows[rank]) words.push_back(print(x));
    if (plan.is_endless()) {
      words.insert(words.begin() + plan.bars[rank].second, "|");
      words.insert(words.begin() + plan.bars[rank].first, "|");
    }
    rows.push_back(words);
  }
  return {{"header", header_of(plan)}, {"rows", rows}};
}

nlohmann::json to_json(const PlanError& error) {
  nlohmann::json result{{"verified", false},
                        {"rule", error.rule},
                        {"rank", error.rank},
                        {"index", error.index},
                        {"message", error.what()}};
  if (error.rule == "hang") result["hang_free"] = false;
  return result;
}

}  // namespace plangrad::examples
