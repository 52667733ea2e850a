// Costs are medians, so that one interruption of a rank does not count.
// Chapter 06.
#include <algorithm>

#include "parallel/session/report_window.h"

namespace plangrad::parallel {
namespace {

/// The value that the given share of values does not exceed; 0 if there are none.
double quantile(std::vector<double> values, double share) {
  if (values.empty()) return 0;
  auto at =
      values.begin() + static_cast<std::ptrdiff_t>(share * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

Costs measured_costs(const Plan& plan, const Timeline& measured) {
  auto medians = [&](Op op, Value part, int stages) {
    std::vector<std::vector<double>> seconds(stages);
    for (const Record& record : measured.records)
      if (record.instruction.op == op && record.instruction.what == part)
        seconds.at(record.instruction.stage).push_back(record.end - record.start);
    std::vector<double> result;
    for (const auto& values : seconds) result.push_back(quantile(values, 0.5));
    return result;
  };
  Costs costs;
  costs.forward = medians(Op::forward, Value::none, plan.stages);
  costs.backward = medians(Op::backward, Value::none, plan.stages);
  costs.input_part = medians(Op::backward, Value::input_part, plan.stages);
  costs.weight_part = medians(Op::backward, Value::weight_part, plan.stages);
  costs.step = medians(Op::step, Value::none, plan.stage_count());
  costs.activation_bytes.assign(plan.stages, 0);
  costs.activation_gradient_bytes.assign(plan.stages, 0);
  costs.weight_bytes.assign(plan.stage_count(), 0);
  costs.sum_bytes.assign(plan.stage_count(), 0);
  struct Message {
    double seconds, bytes;
  };
  std::vector<Message> messages;  // of one round each
  for (const Record& record : measured.records) {
    const Instruction& x = record.instruction;
    const double seconds = record.end - record.start;
    if (record.bytes == 0 || seconds <= 0) continue;
    const auto number = static_cast<double>(rounds(x, plan));
    messages.push_back({seconds / number, static_cast<double>(record.bytes) / number});
    if (x.stage < 0) continue;  // a norm
    auto& bytes = x.what == Value::gradient_sum          ? costs.sum_bytes
                  : x.what == Value::weights             ? costs.weight_bytes
                  : x.what == Value::activation_gradient ? costs.activation_gradient_bytes
                                                         : costs.activation_bytes;
    bytes.at(x.stage) = std::max(bytes.at(x.stage), value_bytes(x, plan, record.bytes));
  }
  if (messages.empty()) return costs;
  costs.latency = std::ranges::min(messages, {}, &Message::seconds).seconds;
  std::vector<double> rates;  // beyond the latency
  for (const auto& [seconds, bytes] : messages)
    if (seconds > costs.latency) rates.push_back(bytes / (seconds - costs.latency));
  if (!rates.empty()) costs.bandwidth = quantile(rates, 0.9);
  return costs;
}

}  // namespace plangrad::parallel
