// Names and formats of a plan's facts, times and time steps.
// Chapter 06.
#include "parallel/drawing/plan_facts.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "parallel/drawing/breakdown_table.h"
#include "parallel/drawing/figure.h"

namespace plangrad::parallel {

namespace {

/// Returns the share of the time in which each rank computes.
std::vector<double> busy_shares(const Timeline& timeline) {
  std::vector<double> busy(timeline.ranks);
  for (const Record& record : timeline.records)
    if (record.lane == Lane::compute) busy[record.rank] += record.end - record.start;
  double makespan = timeline.makespan();
  for (double& seconds : busy) seconds = makespan > 0 ? seconds / makespan : 0;
  return busy;
}

std::string percent(double share) { return fmt::format("{:.3g}%", 100 * share); }
std::string digits(int value) { return std::to_string(value); }

/// Writes one value per rank: "4 3 2 1", "2 on every rank" or, for many ranks, "1 to 64".
template <class T>
std::string per_rank(const std::vector<T>& values, std::string (*print)(T)) {
  constexpr std::size_t most = 16;
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  if (values.size() > 1 && print(*least) == print(*greatest))
    return print(*least) + " on every rank";
  if (values.size() > most) return print(*least) + " to " + print(*greatest);
  std::string line;
  for (T value : values) line += (line.empty() ? "" : " ") + print(value);
  return line;
}

/// Writes the stages of each rank: "0 and 3, 1 and 2" or, for many ranks or stages, "2 on every
/// rank".
std::string held_text(const std::vector<std::set<int>>& held) {
  constexpr std::size_t most = 16;
  std::vector<int> counts;
  std::vector<std::string> stages;
  for (const std::set<int>& own : held) {
    counts.push_back(static_cast<int>(own.size()));
    stages.push_back(own.empty() ? "none" : fmt::format("{}", fmt::join(own, "+")));
  }
  const std::string all = fmt::format("{}", fmt::join(stages, " "));
  return all.size() > 4 * most ? per_rank(counts, digits) : all;
}

/// The most that each rank keeps between forwards and backwards, in microbatches of the whole
/// model, if all stages are alike: a measure for ranks with one stage and with several.
std::vector<double> peak_models(const Facts& facts, int stages) {
  std::vector<double> peaks;
  for (int kept : facts.peak_microbatches) peaks.push_back(1.0 * kept / stages);
  return peaks;
}

/// The most bytes of stages' outputs that each rank keeps between forwards and backwards; empty if
/// outputs have no bytes.
std::vector<double> peak_outputs(const Plan& plan, const Costs& costs) {
  std::vector<std::int64_t> bytes = costs.activation_bytes;
  if (*std::max_element(bytes.begin(), bytes.end()) == 0) return {};
  bytes.resize(plan.stages, bytes.front());
  std::vector<double> peaks;
  for (const Row& row : plan.rows) {
    std::set<std::pair<int, int>> kept;  // stage, microbatch
    std::int64_t now = 0, peak = 0;
    for (const Instruction& x : row) {
      const std::pair<int, int> pass{x.stage, x.micro};
      const bool is_drop = drops(x) && x.what == Value::activation;
      if (begins_pass(x) && kept.insert(pass).second)
        peak = std::max(peak, now += bytes[x.stage]);
      else if ((is_drop || adds_gradient(x)) && kept.erase(pass) > 0)
        now -= bytes[x.stage];
    }
    peaks.push_back(static_cast<double>(peak));
  }
  return peaks;
}

/// Writes which stages read new weights: "3 of 4; the stages of each microbatch: 01 11".
std::string reads_text(const std::vector<std::string>& fresh) {
  constexpr std::size_t most = 16;
  std::ptrdiff_t count = 0;
  std::string all;
  for (const std::string& stages : fresh) {
    count += std::count(stages.begin(), stages.end(), '1');
    all += ' ' + stages;
  }
  std::string line = fmt::format("{} of {}", count, fresh.size() * fresh[0].size());
  if (fresh.size() > most || fresh[0].size() > most) return line;
  return line + "; the stages of each microbatch:" + all;
}

/// Writes how long an endless plan can be, after the number of its steps.
std::string lengths_text(const Plan& plan) {
  if (!plan.is_endless()) return "";
  return fmt::format("; without a body {} steps, each body adds {}", plan.steps - plan.period,
                     plan.period);
}

/// Returns the counts of the time steps in the middle of the plan.
template <class T>
std::vector<T> middle(const TimeSteps& steps, const std::vector<T>& count) {
  return {count.begin() + steps.first, count.begin() + steps.last};
}

std::string three_digits(double value) { return fmt::format("{:.3g}", value); }

int peak_activations(const TimeSteps& steps) {
  return *std::max_element(steps.alive.begin(), steps.alive.end());
}

/// Writes a range: "6 in each", or "1 to 4, 2 on average".
template <class T>
std::string range(const std::vector<T>& values, std::string (*print)(double) = three_digits) {
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const auto low = static_cast<double>(*least), high = static_cast<double>(*largest);
  if (low == high) return print(low) + " in each";
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return fmt::format("{} to {}, {} on average", print(low), print(high),
                     print(sum / static_cast<double>(values.size())));
}

/// Counts how often each stage is computed in each time step in the middle of the plan.
std::vector<int> visits(const TimeSteps& steps) {
  std::vector<int> result;
  for (int t = steps.first; t < steps.last; ++t)
    for (int count : steps.computations[t]) result.push_back(count);
  return result;
}

nlohmann::json to_json(const TimeSteps& steps) {
  const std::vector<int> visited = visits(steps);
  const auto [least, most] = std::minmax_element(visited.begin(), visited.end());
  return {{"seconds", steps.length},
          {"first", steps.first},
          {"activations", middle(steps, steps.alive)},
          {"gradient_sums", middle(steps, steps.sums)},
          {"values", middle(steps, steps.values)},
          {"bytes", middle(steps, steps.bytes)},
          {"visits_of_a_stage", {{"least", *least}, {"most", *most}}}};
}

}  // namespace

Lines lines(const VerifiedPlan& verified) {
  const Plan& plan = verified.plan();
  const Facts& facts = verified.facts();
  std::string messages;
  for (const auto& [kind, number] : facts.messages)
    messages += fmt::format("{}{} {}", messages.empty() ? "" : ", ", number, kind);
  Lines result{{"ranks", std::to_string(plan.ranks())},
               {"stages", std::to_string(plan.stages)},
               {"stages of each rank", held_text(facts.held)},
               {"steps x microbatches",
                fmt::format("{} x {}{}", plan.steps, plan.per_step, lengths_text(plan))},
               {"hang free", "yes"},
               {"channel capacity", std::to_string(facts.capacity)},
               {"staleness", std::to_string(facts.staleness)},
               {"live versions", per_rank(facts.live_versions, digits)},
               {"peak microbatches", per_rank(facts.peak_microbatches, digits)},
               {"peak in models", per_rank(peak_models(facts, plan.stages), three_digits)},
               {"messages", messages.empty() ? "none" : messages}};
  if (facts.drift > 0) result.insert(result.end() - 4, {"drift", std::to_string(facts.drift)});
  if (facts.versions_in_use != facts.live_versions)
    result.insert(result.end() - 3, {"versions in use", per_rank(facts.versions_in_use, digits)});
  if (facts.staleness > 0 || facts.drift > 0)
    result.insert(result.end() - 3, {"reads of new weights", reads_text(facts.fresh_reads)});
  if (facts.peak_inputs != facts.peak_microbatches)
    result.insert(result.end() - 2, {"peak inputs", per_rank(facts.peak_inputs, digits)});
  return result;
}

Lines lines(const Plan& plan, const Costs& costs) {
  const std::vector<double> peaks = peak_outputs(plan, costs);
  if (peaks.empty()) return {};
  return {{"peak of outputs", per_rank(peaks, bytes_text)}};
}

Lines lines(const Timeline& timeline) {
  return {{"makespan", seconds_text(timeline.makespan())},
          {"bubble", percent(timeline.bubble())},
          {"busy", per_rank(busy_shares(timeline), percent)},
          {"bytes", bytes_text(static_cast<double>(timeline.bytes()))}};
}

Lines lines(const SteadyState& steady) {
  return {{"steady state", fmt::format("{} an update, bubble {}", seconds_text(steady.seconds),
                                       percent(steady.bubble))}};
}

Lines lines(const TimeSteps& steps) {
  return {{"time step", seconds_text(steps.length)},
          {"peak activations", digits(peak_activations(steps))},
          {"in the middle", fmt::format("time steps {} to {}", steps.first, steps.last - 1)},
          {"activations", range(middle(steps, steps.alive))},
          {"gradient sums", range(middle(steps, steps.sums))},
          {"all values", range(middle(steps, steps.values))},
          {"bytes sent", range(middle(steps, steps.bytes), bytes_text)},
          {"visits of a stage", range(visits(steps))}};
}

nlohmann::json to_json(const VerifiedPlan& verified, const Timeline& timeline) {
  const Facts& facts = verified.facts();
  const Plan& plan = verified.plan();
  nlohmann::json result{{"verified", true},
                        {"hang_free", true},
                        {"ranks", plan.ranks()},
                        {"stages", plan.stages},
                        {"per_step", plan.per_step},
                        {"channel_capacity", facts.capacity},
                        {"staleness", facts.staleness},
                        {"drift", facts.drift},
                        {"live_versions", facts.live_versions},
                        {"versions_in_use", facts.versions_in_use},
                        {"fresh_reads", facts.fresh_reads},
                        {"peak_microbatches", facts.peak_microbatches},
                        {"peak_inputs", facts.peak_inputs},
                        {"stages_held", facts.held},
                        {"peak_models", peak_models(facts, plan.stages)},
                        {"messages", facts.messages},
                        {"makespan", timeline.makespan()},
                        {"bubble", timeline.bubble()},
                        {"busy", busy_shares(timeline)},
                        {"bytes", timeline.bytes()},
                        {"breakdown", to_json(breakdown(plan, timeline))},
                        {"critical_path", to_json(critical_path(plan, timeline))}};
  if (time_step(timeline) <= 0) return result;
  const TimeSteps steps = time_steps(plan, timeline);
  result["peak_activations"] = peak_activations(steps);
  result["time_steps"] = to_json(steps);
  return result;
}

nlohmann::json to_json(const Plan& plan, const Costs& costs) {
  const std::vector<double> peaks = peak_outputs(plan, costs);
  return peaks.empty() ? nlohmann::json::object() : nlohmann::json{{"peak_outputs", peaks}};
}

nlohmann::json to_json(const SteadyState& steady) {
  return {{"seconds_per_update", steady.seconds}, {"bubble", steady.bubble}};
}

nlohmann::json all_facts(const VerifiedPlan& verified, const Costs& costs) {
  nlohmann::json all = to_json(verified, simulate(verified, costs));
  all.update(to_json(verified.plan(), costs));
  if (verified.plan().is_endless()) all["steady_state"] = to_json(steady_state(verified, costs));
  return all;
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
  nlohmann::json header{
      {"stages", plan.stages},   {"per_step", plan.per_step}, {"steps", plan.steps},
      {"first", plan.first},     {"sharded", plan.sharded},   {"clip", plan.clip},
      {"stagger", plan.stagger}, {"gap", plan.gap},           {"in_flight", plan.in_flight},
      {"keep", plan.keep},       {"home", plan.home},         {"groups", plan.groups},
      {"tied", plan.tied}};
  if (plan.drift > 0) header["drift"] = plan.drift;
  if (plan.is_endless()) header["period"] = plan.period;
  return {{"header", header}, {"rows", rows}};
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

}  // namespace plangrad::parallel
