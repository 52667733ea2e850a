// Names and formats of a plan's facts, times and time steps.
// Chapter 06.
#include "examples/common/plan_facts.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "parallel/drawing/breakdown_table.h"
#include "parallel/drawing/figure.h"

namespace paragrad::examples {

namespace {

/// Returns the share of the time in which each rank computes.
std::vector<double> busy_shares(const parallel::Timeline& timeline) {
  std::vector<double> busy(timeline.ranks);
  for (const parallel::Record& record : timeline.records)
    if (record.lane == parallel::Lane::compute) busy[record.rank] += record.end - record.start;
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
std::string lengths_text(const parallel::Plan& plan) {
  if (!plan.is_endless()) return "";
  return fmt::format("; without a body {} steps, each body adds {}", plan.steps - plan.period,
                     plan.period);
}

/// Returns the counts of the time steps in the middle of the plan.
template <class T>
std::vector<T> middle(const parallel::TimeSteps& steps, const std::vector<T>& count) {
  return {count.begin() + steps.first, count.begin() + steps.last};
}

int peak_activations(const parallel::TimeSteps& steps) {
  return *std::max_element(steps.alive.begin(), steps.alive.end());
}

std::string plain(double value) { return fmt::format("{:.3g}", value); }

/// Writes a range: "6 in each", or "1 to 4, 2 on average".
template <class T>
std::string range(const std::vector<T>& values, std::string (*print)(double) = plain) {
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const auto low = static_cast<double>(*least), high = static_cast<double>(*largest);
  if (low == high) return print(low) + " in each";
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return fmt::format("{} to {}, {} on average", print(low), print(high),
                     print(sum / static_cast<double>(values.size())));
}

/// Counts how often each stage is computed in each time step in the middle of the plan.
std::vector<int> visits(const parallel::TimeSteps& steps) {
  std::vector<int> result;
  for (int t = steps.first; t < steps.last; ++t)
    for (int count : steps.computations[t]) result.push_back(count);
  return result;
}

nlohmann::json to_json(const parallel::TimeSteps& steps) {
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

Lines lines(const parallel::VerifiedPlan& verified) {
  const parallel::Plan& plan = verified.plan();
  const parallel::Facts& facts = verified.facts();
  std::string messages;
  for (const auto& [kind, number] : facts.messages)
    messages += fmt::format("{}{} {}", messages.empty() ? "" : ", ", number, kind);
  Lines result{{"ranks", std::to_string(plan.ranks())},
               {"stages", std::to_string(plan.stages)},
               {"steps x microbatches",
                fmt::format("{} x {}{}", plan.steps, plan.per_step, lengths_text(plan))},
               {"channel capacity", std::to_string(facts.capacity)},
               {"staleness", std::to_string(facts.staleness)},
               {"live versions", per_rank(facts.live_versions, digits)},
               {"peak microbatches", per_rank(facts.peak_microbatches, digits)},
               {"messages", messages.empty() ? "none" : messages}};
  if (facts.versions_in_use != facts.live_versions)
    result.insert(result.end() - 2, {"versions in use", per_rank(facts.versions_in_use, digits)});
  if (facts.staleness > 0)
    result.insert(result.end() - 2, {"reads of new weights", reads_text(facts.fresh_reads)});
  if (facts.peak_inputs != facts.peak_microbatches)
    result.insert(result.end() - 1, {"peak inputs", per_rank(facts.peak_inputs, digits)});
  return result;
}

Lines lines(const parallel::Timeline& timeline) {
  return {{"makespan", parallel::seconds_text(timeline.makespan())},
          {"bubble", percent(timeline.bubble())},
          {"busy", per_rank(busy_shares(timeline), percent)},
          {"bytes", parallel::bytes_text(static_cast<double>(timeline.bytes()))}};
}

Lines lines(const parallel::SteadyState& steady) {
  return {{"steady state",
           fmt::format("{} an update, bubble {}", parallel::seconds_text(steady.seconds),
                       percent(steady.bubble))}};
}

Lines lines(const parallel::TimeSteps& steps) {
  return {{"time step", parallel::seconds_text(steps.length)},
          {"peak activations", digits(peak_activations(steps))},
          {"in the middle", fmt::format("time steps {} to {}", steps.first, steps.last - 1)},
          {"activations", range(middle(steps, steps.alive))},
          {"gradient sums", range(middle(steps, steps.sums))},
          {"all values", range(middle(steps, steps.values))},
          {"bytes sent", range(middle(steps, steps.bytes), parallel::bytes_text)},
          {"visits of a stage", range(visits(steps))}};
}

nlohmann::json to_json(const parallel::VerifiedPlan& verified, const parallel::Timeline& timeline) {
  const parallel::Facts& facts = verified.facts();
  const parallel::Plan& plan = verified.plan();
  nlohmann::json result{{"verified", true},
                        {"hang_free", true},
                        {"ranks", plan.ranks()},
                        {"stages", plan.stages},
                        {"per_step", plan.per_step},
                        {"channel_capacity", facts.capacity},
                        {"staleness", facts.staleness},
                        {"live_versions", facts.live_versions},
                        {"versions_in_use", facts.versions_in_use},
                        {"fresh_reads", facts.fresh_reads},
                        {"peak_microbatches", facts.peak_microbatches},
                        {"peak_inputs", facts.peak_inputs},
                        {"messages", facts.messages},
                        {"makespan", timeline.makespan()},
                        {"bubble", timeline.bubble()},
                        {"busy", busy_shares(timeline)},
                        {"bytes", timeline.bytes()},
                        {"breakdown", parallel::to_json(parallel::breakdown(plan, timeline))},
                        {"critical_path", parallel::to_json(critical_path(plan, timeline))}};
  if (parallel::time_step(timeline) <= 0) return result;
  const parallel::TimeSteps steps = parallel::time_steps(plan, timeline);
  result["peak_activations"] = peak_activations(steps);
  result["time_steps"] = to_json(steps);
  return result;
}

nlohmann::json to_json(const parallel::SteadyState& steady) {
  return {{"seconds_per_update", steady.seconds}, {"bubble", steady.bubble}};
}

nlohmann::json to_json(const parallel::Plan& plan) {
  nlohmann::json rows = nlohmann::json::array();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<std::string> words;
    for (const parallel::Instruction& x : plan.rows[rank]) words.push_back(print(x));
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
  if (plan.is_endless()) header["period"] = plan.period;
  return {{"header", header}, {"rows", rows}};
}

nlohmann::json to_json(const parallel::PlanError& error) {
  nlohmann::json result{{"verified", false},
                        {"rule", error.rule},
                        {"rank", error.rank},
                        {"index", error.index},
                        {"message", error.what()}};
  if (error.rule == "hang") result["hang_free"] = false;
  return result;
}

}  // namespace paragrad::examples
