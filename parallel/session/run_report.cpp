// Costs are medians: a rank that was interrupted once does not count.
// Chapter 06.
#include "parallel/session/run_report.h"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

namespace paragrad::parallel {
namespace {

/// The value that a share of all values does not exceed; 0 if there are none.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

Costs measured_costs(const Plan& plan, const Timeline& measured) {
  std::vector<std::vector<double>> forward(plan.stages), backward(plan.stages),
      step(plan.stage_count());
  std::vector<double> durations, rates;
  Costs costs;
  costs.activation_bytes.assign(plan.stages, 0);
  costs.activation_gradient_bytes.assign(plan.stages, 0);
  costs.weight_bytes.assign(plan.stage_count(), 0);
  costs.sum_bytes.assign(plan.stage_count(), 0);
  for (const Record& record : measured.records) {
    const Instruction& x = record.instruction;
    double seconds = record.end - record.start;
    if (begins_pass(x)) forward.at(x.stage).push_back(seconds);
    if (goes_back(x)) backward.at(x.stage).push_back(seconds);
    if (makes_version(x)) step.at(x.stage).push_back(seconds);
    if (record.bytes == 0 || seconds <= 0) continue;
    durations.push_back(seconds);
    rates.push_back(static_cast<double>(record.bytes) / seconds);
    if (x.stage < 0) continue;  // a norm
    auto& bytes = x.what == Value::gradient_sum          ? costs.sum_bytes
                  : x.what == Value::weights             ? costs.weight_bytes
                  : x.what == Value::activation_gradient ? costs.activation_gradient_bytes
                                                         : costs.activation_bytes;
    bytes.at(x.stage) = std::max(bytes.at(x.stage), value_bytes(x, plan, record.bytes));
  }
  auto medians = [](const std::vector<std::vector<double>>& stages) {
    std::vector<double> result;
    for (const auto& values : stages) result.push_back(quantile(values, 0.5));
    return result;
  };
  costs.forward = medians(forward);
  costs.backward = medians(backward);
  costs.step = medians(step);
  costs.latency = quantile(durations, 0);
  if (!rates.empty()) costs.bandwidth = quantile(rates, 0.9);
  return costs;
}

Curve loss_curve(const std::filesystem::path& metrics) {
  Series training{"training", {}, {}}, validation{"validation", {}, {}};
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (!entry.is_object() || !entry.contains("step")) continue;
    bool validated = entry.contains("validation_loss");
    if (!validated && !entry.contains("loss")) continue;  // a line of something else
    Series& series = validated ? validation : training;
    series.x.push_back(entry["step"]);
    series.y.push_back(entry[validated ? "validation_loss" : "loss"]);
  }
  Curve curve{"Loss", "step", "nats", {training}};
  if (!validation.x.empty()) curve.series.push_back(validation);
  return curve;
}

std::vector<BitChange> bit_history(const std::filesystem::path& metrics) {
  std::vector<BitChange> history;
  std::ifstream file(metrics);
  for (std::string line; std::getline(file, line);) {
    nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (entry.is_object() && entry.contains("bits"))
      history.push_back({entry["step"], entry["bits"].get<std::map<std::string, int>>()});
  }
  return history;
}

}  // namespace paragrad::parallel
