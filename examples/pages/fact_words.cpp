// The table of facts, and how each is written.
// Not here: their values (plan_facts.cpp), sentences about a plan (examples/programs/plan_words.h).
// Chapter 06.
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <numeric>

#include "examples/pages/plan_facts.h"
#include "parallel/drawing/figure.h"

namespace plangrad::examples {
namespace {

using Json = nlohmann::json;

constexpr std::size_t most_listed = 16;

std::string in_unit(double value, Unit unit) {
  switch (unit) {
    case Unit::share: return fmt::format("{:.3g}%", 100 * value);
    case Unit::seconds: return seconds_text(value);
    case Unit::bytes: return bytes_text(value);
    default: return fmt::format("{:.3g}", value);
  }
}

/// Writes one value per rank: "4 3 2 1", "2 on every rank" or, for many ranks, "1 to 64".
std::string per_rank(const Json& values, Unit unit) {
  const auto print = [&](const Json& value) {
    return value.is_number_integer() && unit == Unit::count ? value.dump() : in_unit(value, unit);
  };
  if (!values.is_array()) return print(values);
  const auto [least, greatest] = std::minmax_element(values.begin(), values.end());
  if (values.size() > 1 && print(*least) == print(*greatest))
    return print(*least) + " on every rank";
  if (values.size() > most_listed) return print(*least) + " to " + print(*greatest);
  std::string line;
  for (const Json& value : values) line += (line.empty() ? "" : " ") + print(value);
  return line;
}

/// Writes the stages of each rank: "0+3 1+2" or, for many ranks or stages, "2 on every rank".
std::string held_text(const Json& held, const Json&) {
  std::vector<std::string> stages;
  Json counts = Json::array();
  for (const Json& own : held) {
    counts.push_back(own.size());
    stages.push_back(own.empty() ? "none"
                                 : fmt::format("{}", fmt::join(own.get<std::vector<int>>(), "+")));
  }
  const std::string all = fmt::format("{}", fmt::join(stages, " "));
  return all.size() > 4 * most_listed ? per_rank(counts, Unit::count) : all;
}

/// Writes the number of steps; for an endless plan, also how long it can be.
std::string steps_text(const Json& steps, const Json& facts) {
  const int count = steps, period = facts.value("period", 0);
  std::string line = fmt::format("{} x {}", count, facts["per_step"].get<int>());
  if (period == 0) return line;
  return line +
         text("; without a body ", counted(count - period, "step"), ", each body adds ", period);
}

/// Writes which stages read new weights: "3 of 4; the stages of each microbatch: 01 11".
std::string reads_text(const Json& reads, const Json& facts) {
  if (facts["staleness"] == 0 && facts["drift"] == 0) return "";
  const auto fresh = reads.get<std::vector<std::string>>();
  std::ptrdiff_t count = 0;
  for (const std::string& stages : fresh) count += std::count(stages.begin(), stages.end(), '1');
  std::string line = fmt::format("{} of {}", count, fresh.size() * fresh[0].size());
  if (fresh.size() > most_listed || fresh[0].size() > most_listed) return line;
  return line + fmt::format("; the stages of each microbatch: {}", fmt::join(fresh, " "));
}

std::string messages_text(const Json& messages, const Json&) {
  std::string line;
  for (const auto& [kind, number] : messages.items())
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", number.get<int>(), kind);
  return line.empty() ? "none" : line;
}

/// Says a list only if it differs from another one.
template <const char* const& other>
std::string if_not(const Json& values, const Json& facts) {
  return values == facts[other] ? "" : per_rank(values, Unit::count);
}
constexpr const char* live_versions = "live_versions";
constexpr const char* peak_microbatches = "peak_microbatches";

std::string if_positive(const Json& value, const Json&) { return value > 0 ? value.dump() : ""; }

std::string steady_text(const Json& steady, const Json&) {
  return fmt::format("{} an update, bubble {}", seconds_text(steady["seconds_per_update"]),
                     in_unit(steady["bubble"], Unit::share));
}

/// The fullest rank at its peak, in words: "rank 0 in 0B1v0: 4 MB weights, 2 MB activations".
std::string fullest_text(const Json& fullest, const Json&) {
  std::string line;
  for (const auto& [kind, bytes] : fullest["bytes"].items())
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", bytes_text(bytes), kind);
  const std::string cell = fullest.value("cell", "");
  if (const double saving = fullest.value("saving", 0.0); saving > 0)
    line += fmt::format("; {} while a checkpoint is saved", bytes_text(saving));
  return fmt::format("rank {}{}: {}", fullest["rank"].get<int>(), cell.empty() ? "" : " in " + cell,
                     line);
}

std::string middle_text(const Json& steps, const Json&) {
  const auto first = steps["first"].get<std::size_t>();
  return fmt::format("time steps {} to {}", first, first + steps["activations"].size() - 1);
}

std::string range_text(double low, double high, double mean, Unit unit) {
  if (low == high) return in_unit(low, unit) + " in each";
  return fmt::format("{} to {}, {} on average", in_unit(low, unit), in_unit(high, unit),
                     in_unit(mean, unit));
}

/// Writes a range: "6 in each", or "1 to 4, 2 on average".
template <Unit unit>
std::string range(const Json& list, const Json&) {
  const auto values = list.get<std::vector<double>>();
  const auto [least, largest] = std::minmax_element(values.begin(), values.end());
  const double sum = std::accumulate(values.begin(), values.end(), 0.0);
  return range_text(*least, *largest, sum / static_cast<double>(values.size()), unit);
}

std::string visits_text(const Json& visits, const Json& facts) {
  return range_text(visits["least"], visits["most"], facts["time_steps"]["mean_visits"],
                    Unit::count);
}

constexpr PlanFact facts_table[] = {
    {"/ranks", "ranks", Unit::count, FactKind::of_plan},
    {"/stages", "stages", Unit::count, FactKind::of_plan},
    {"/per_step", "microbatches of an update"},
    {"/steps", "updates"},
    {"/stages_held", "stages of each rank", Unit::count, FactKind::of_plan, false,
     "whose state or shard it keeps", held_text},
    {"/steps", "steps x microbatches", Unit::count, FactKind::of_plan, false, nullptr, steps_text},
    {"/hang_free", "hang free", Unit::count, FactKind::of_plan, false, nullptr,
     [](const Json&, const Json&) -> std::string { return "yes"; }},
    {"/channel_capacity", "channel capacity", Unit::count, FactKind::of_plan, true,
     "messages that a channel must hold so that nothing hangs; 0: a send may wait for its receive"},
    {"/staleness", "staleness", Unit::count, FactKind::of_plan, true,
     "updates that a gradient is late"},
    {"/drift", "drift", Unit::count, FactKind::of_plan, true, nullptr, if_positive},
    {"/live_versions", "live versions", Unit::count, FactKind::of_plan, true,
     "most versions of a stage, by rank"},
    {"/versions_in_use", "versions in use", Unit::count, FactKind::of_plan, true, nullptr,
     if_not<live_versions>},
    {"/fresh_reads", "reads of new weights", Unit::count, FactKind::of_plan, false, nullptr,
     reads_text},
    {"/peak_microbatches", "peak forwards", Unit::count, FactKind::of_plan, true,
     "forwards whose activations a rank keeps at once, by rank"},
    {"/peak_inputs", "peak inputs", Unit::count, FactKind::of_plan, true, nullptr,
     if_not<peak_microbatches>},
    {"/peak_models", "peak in models", Unit::count, FactKind::of_plan, true,
     "the same, in microbatches of the whole model"},
    {"/messages", "messages", Unit::count, FactKind::of_plan, true,
     "by kind, as plans write them: a outputs, g gradients, p sums, w weights, t turns",
     messages_text},
    {"/peak_outputs", "peak of outputs", Unit::bytes, FactKind::of_time},
    {"/memory/peaks", "peak memory", Unit::bytes, FactKind::of_time},
    {"/memory/fullest", "fullest rank", Unit::bytes, FactKind::of_time, false, nullptr,
     fullest_text},
    {"/makespan", "makespan", Unit::seconds, FactKind::of_time, true,
     "time until the last rank is done"},
    {"/bubble", "bubble", Unit::share, FactKind::of_time, true,
     "share of time in which ranks are idle"},
    {"/busy", "busy", Unit::share, FactKind::of_time, false},
    {"/bytes", "bytes", Unit::bytes, FactKind::of_time, true, "sent by all ranks"},
    {"/steady_state", "steady state", Unit::seconds, FactKind::of_time, false, nullptr,
     steady_text},
    {"/steady_state/seconds_per_update", "steady: an update", Unit::seconds, FactKind::nowhere,
     true, "time that each update adds in a long run"},
    {"/steady_state/bubble", "steady: bubble", Unit::share, FactKind::nowhere, true,
     "share of idle time in a long run"},
    {"/time_steps/seconds", "time step", Unit::seconds, FactKind::of_time_steps, false},
    {"/peak_activations", "peak activations", Unit::count, FactKind::of_time_steps},
    {"/time_steps", "in the middle", Unit::count, FactKind::of_time_steps, false, nullptr,
     middle_text},
    {"/time_steps/activations", "activations", Unit::count, FactKind::of_time_steps, false, nullptr,
     range<Unit::count>},
    {"/time_steps/gradient_sums", "gradient sums", Unit::count, FactKind::of_time_steps, false,
     nullptr, range<Unit::count>},
    {"/time_steps/values", "all values", Unit::count, FactKind::of_time_steps, false, nullptr,
     range<Unit::count>},
    {"/time_steps/bytes", "bytes sent", Unit::bytes, FactKind::of_time_steps, false, nullptr,
     range<Unit::bytes>},
    {"/time_steps/visits_of_a_stage", "visits of a stage", Unit::count, FactKind::of_time_steps,
     false, nullptr, visits_text},
    {"/breakdown/compute", "all ranks compute", Unit::seconds},
    {"/breakdown/update", "all ranks update", Unit::seconds},
    {"/breakdown/waiting", "all wait for others", Unit::seconds},
    {"/breakdown/point_to_point", "all wait for messages", Unit::seconds},
    {"/breakdown/collective", "all wait for groups", Unit::seconds},
};

}  // namespace

std::span<const PlanFact> plan_facts() { return facts_table; }

std::string number_text(double value, Unit unit) {
  if (unit == Unit::share) return fmt::format("{:.1f}%", 100 * value);
  return unit == Unit::count ? fmt::format("{:.4g}", value) : in_unit(value, unit);
}

Lines in_words(const Json& facts, FactKind told) {
  Lines lines;
  for (const PlanFact& fact : facts_table) {
    const Json::json_pointer place(fact.place);
    if (fact.told != told || !facts.contains(place)) continue;
    const Json& value = facts.at(place);
    const std::string text = fact.text ? fact.text(value, facts) : per_rank(value, fact.unit);
    if (!text.empty()) lines.emplace_back(fact.name, text);
  }
  return lines;
}

}  // namespace plangrad::examples
