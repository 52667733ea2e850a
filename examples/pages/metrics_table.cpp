// A page shows about a thousand points, so a long run's updates are averaged. The histogram counts
// each update: it is there to show the few that took long. Chapter 06.
#include "examples/pages/metrics_table.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "nn/checkpoint/file.h"

namespace plangrad::examples {
using nlohmann::json;

double rounded(double value, int digits) {
  if (value == 0 || !std::isfinite(value)) return value;
  const double unit = std::pow(10, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(unit) ? std::round(value * unit) / unit : value;
}

std::size_t MetricsTable::updates() const {
  const auto steps = updates_.find("step");
  return steps == updates_.end() ? 0 : steps->second.size();
}

namespace {

constexpr int metric_digits = 5;

/// What `of` makes of each `every` values.
json of_parts(const std::vector<double>& values, std::size_t every, auto of) {
  json result = json::array();
  for (std::size_t i = 0; i < values.size(); i += every) {
    const auto begin = values.begin() + static_cast<std::ptrdiff_t>(i);
    const auto end = begin + static_cast<std::ptrdiff_t>(std::min(every, values.size() - i));
    result.push_back(rounded(of(begin, end), metric_digits));
  }
  return result;
}

json event(const json& line) {
  json result{{"step", line["step"]}};
  if (line.contains("pruning")) {
    const json& found = line["pruning"];
    if (!found.contains("pruned")) return nullptr;  // nothing yet
    result["what"] = "pruning";
    result["text"] = "pruned to " + found.value("kept", json()).dump() + " of " +
                     found.value("elements", json()).dump() + " elements";
  } else if (line.contains("bits")) {
    result["what"] = "bits";
    result["text"] = "bits of layers chosen";
  } else if (line.contains("elastic") && line["elastic"].is_string()) {
    result["what"] = "elastic";
    result["text"] = line["elastic"];
  } else if (line.contains("drained") && line["drained"].is_string()) {
    result["what"] = "drain";
    result["text"] = "pipeline drained: " + line["drained"].get<std::string>();
  } else {
    return nullptr;
  }
  return result;
}

/// Keeps at most `most` entries: the first ones, a third, and the last.
void shorten(json& list, std::size_t most) {
  if (list.size() <= most) return;
  const auto first = static_cast<std::ptrdiff_t>(most / 3);
  const auto last = static_cast<std::ptrdiff_t>(list.size() - (most - most / 3));
  list.erase(list.begin() + first, list.begin() + last);
}

constexpr std::size_t most_columns = 100, most_validations = 1000, most_bits = 40,
                      most_events = 300;
constexpr std::string_view always[] = {"step", "loss", "seconds"};  // of which pages are made

/// Adds an entry to a list, which is shortened now and then: a file may have millions of lines.
void append(json& list, const json& entry, std::size_t most) {
  list.push_back(entry);
  if (list.size() > 2 * most) shorten(list, most);
}

}  // namespace

void MetricsTable::add(const json& line) {
  if (!line.contains("step")) return;
  if (line.contains("loss")) {
    for (const auto& [name, value] : line.items())  // null: not a number
      if (updates_.size() < most_columns || updates_.contains(name) ||
          std::ranges::find(always, name) != std::end(always))
        updates_[name].push_back(value.is_number() ? value.get<double>() : std::nan(""));
    return;
  }
  if (line.contains("validation_loss")) append(validation_, line, most_validations);
  if (line.contains("bits")) append(bits_, line, most_bits);
  if (const json found = event(line); !found.is_null()) append(events_, found, most_events);
}

json MetricsTable::columns(std::size_t points) const {
  const std::size_t every = std::max<std::size_t>(1, (updates() + points - 1) / points);
  json result = json::object();
  auto mean = [](auto begin, auto end) {
    return std::accumulate(begin, end, 0.0) / static_cast<double>(end - begin);
  };
  for (const auto& [name, values] : updates_) result[name] = of_parts(values, every, mean);
  if (every > 1 && updates_.contains("loss")) {
    const std::vector<double>& loss = updates_.at("loss");
    result["loss_low"] =
        of_parts(loss, every, [](auto a, auto b) { return *std::min_element(a, b); });
    result["loss_high"] =
        of_parts(loss, every, [](auto a, auto b) { return *std::max_element(a, b); });
  }
  result["updates_per_point"] = every;
  result["histogram"] = histogram();
  shorten(result["validation"] = validation_, std::min(points, most_validations));
  shorten(result["bits"] = bits_, most_bits);
  shorten(result["events"] = events_, most_events);
  return result;
}

/// Counts updates by their seconds, in equal parts of a logarithmic axis.
json MetricsTable::histogram() const {
  std::vector<double> seconds;
  if (const auto found = updates_.find("seconds"); found != updates_.end())
    for (double value : found->second)
      if (value > 0) seconds.push_back(value);
  if (seconds.empty()) return nullptr;
  std::sort(seconds.begin(), seconds.end());
  const double low = seconds.front(), high = std::max(seconds.back(), low * 1.01);
  std::vector<int> counts(std::clamp<std::size_t>(seconds.size() / 4, 8, 40));
  for (double value : seconds) {
    const double place = std::log(value / low) / std::log(high / low);
    ++counts[std::min(counts.size() - 1,
                      static_cast<std::size_t>(place * static_cast<double>(counts.size())))];
  }
  auto quantile_at = [&](double share) {
    return rounded(
        seconds[static_cast<std::size_t>(share * static_cast<double>(seconds.size() - 1))],
        metric_digits);
  };
  return {{"low", rounded(low, metric_digits)},
          {"high", rounded(high, metric_digits)},
          {"counts", counts},
          {"median", quantile_at(0.5)},
          {"slow", quantile_at(0.99)}};
}

}  // namespace plangrad::examples
