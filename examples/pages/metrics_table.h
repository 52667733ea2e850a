// MetricsTable: the lines of metrics.jsonl as columns, short enough for a page.
// Not here: who writes them (RunLog). Chapter 06.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace plangrad::examples {

/// A number with `digits` digits, which is short as text.
double rounded(double value, int digits);

class MetricsTable {
 public:
  /// Adds a line; lines without a step are left out.
  void add(const nlohmann::json& line);

  /// The columns of updates by name ("step", "loss", "seconds", ...), at most `points` of each: of
  /// a longer run, means over equal numbers of updates, with "loss_low" and "loss_high". Beside
  /// them "validation" (lists of losses and accuracies), "bits", "histogram" (of all updates'
  /// seconds) and "events": what else lines tell of.
  nlohmann::json columns(std::size_t points) const;

  std::size_t updates() const;

 private:
  nlohmann::json histogram() const;

  std::map<std::string, std::vector<double>> updates_;  // by column
  nlohmann::json validation_ = nlohmann::json::array(), bits_ = validation_, events_ = validation_;
};

}  // namespace plangrad::examples
