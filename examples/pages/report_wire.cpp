// Messages tell their encoded bytes. Which count of values gave them is found by trying counts.
// Chapter 10.
#include "examples/pages/report_wire.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "examples/pages/metrics_table.h"
#include "examples/pages/report_memory.h"
#include "parallel/codecs/message_codec.h"
#include "parallel/simulation/costs.h"

namespace plangrad::parallel {
using nlohmann::json;

namespace {

constexpr double f32_bytes = 4;

/// The smallest count of values whose message has `bytes`.
std::int64_t values_in(const Instruction& x, const Plan& plan, DType dtype, std::int64_t bytes) {
  const ChannelCodec codec(plan.channel, {});
  std::int64_t low = 1, high = 1;
  while (codec.encoded_bytes(x, high, dtype) < bytes && high < 1'000'000'000'000) high *= 2;
  while (low < high) {
    const std::int64_t middle = (low + high) / 2;
    (codec.encoded_bytes(x, middle, dtype) < bytes ? low : high) =
        codec.encoded_bytes(x, middle, dtype) < bytes ? middle + 1 : middle;
  }
  return low;
}

}  // namespace

double bytes_in_f32(const Record& record, const Plan& plan, const Training& training,
                    const std::vector<std::int64_t>& elements) {
  const Instruction& x = record.instruction;
  const auto sent = static_cast<double>(record.bytes);
  if (record.bytes == 0 || x.stage < 0) return sent;
  if (x.what == Value::gradient_sum || x.what == Value::weights) {
    Costs costs;
    costs.weight_bytes.clear();
    for (std::int64_t count : elements)
      costs.weight_bytes.push_back(count * static_cast<std::int64_t>(f32_bytes));
    return static_cast<double>(bytes_sent(x, record.rank, plan, costs));
  }
  if (x.what != Value::activation && x.what != Value::activation_gradient) return sent;
  if (plan.channel.is_none())
    return sent * f32_bytes / static_cast<double>(size_of(training.dtype));
  return f32_bytes * static_cast<double>(values_in(x, plan, training.dtype, record.bytes));
}

namespace {

/// Bytes by slot and kind.
json flow_json(const Plan& plan, const Timeline& measured, const std::vector<std::string>& kinds) {
  constexpr double most_slots = 200;
  const double seconds = measured.makespan(), step = time_step(measured);
  if (step <= 0 || kinds.empty()) return nullptr;
  const double slot = step * std::max(1.0, std::ceil(seconds / step / most_slots));
  std::vector<std::vector<std::int64_t>> slots(
      kinds.size(), std::vector<std::int64_t>(static_cast<std::size_t>(seconds / slot) + 1));
  for (const Sending& sending : sendings(plan, measured)) {
    const auto kind = std::ranges::find(kinds, message_kind(sending.instruction));
    if (kind == kinds.end()) continue;
    auto& line = slots.at(kind - kinds.begin());
    line.at(std::min(line.size() - 1, static_cast<std::size_t>(sending.seconds / slot))) +=
        sending.bytes;
  }
  return {{"seconds", rounded(slot, 5)}, {"slots", slots}};
}

}  // namespace

json wire_json(const Plan& plan, const Timeline& measured, const Training& training) {
  const std::vector<std::int64_t> elements = stage_elements(plan, training);
  std::map<std::string, std::vector<double>> ranks;  // bytes by kind and rank
  std::map<std::string, double> f32;
  for (const Record& record : measured.records) {
    if (record.bytes == 0) continue;
    const std::string kind = message_kind(record.instruction);
    auto& bytes = ranks.try_emplace(kind, measured.ranks).first->second;
    bytes.at(record.rank) += static_cast<double>(record.bytes) / plan.steps;
    f32[kind] += bytes_in_f32(record, plan, training, elements) / plan.steps;
  }
  json result{{"kinds", json::array()},
              {"sent", json::array()},
              {"f32", json::array()},
              {"ranks", json::array()}};
  std::vector<std::string> kinds;
  for (const auto& [kind, by_rank] : ranks) {
    kinds.push_back(kind);
    double sum = 0;
    for (double bytes : by_rank) sum += bytes;
    json line = json::array();
    for (double bytes : by_rank) line.push_back(std::llround(bytes));
    result["kinds"].push_back(kind);
    result["sent"].push_back(std::llround(sum));
    result["f32"].push_back(std::llround(f32[kind]));
    result["ranks"].push_back(line);
  }
  result["flow"] = flow_json(plan, measured, kinds);
  result["burst_seconds"] = rounded(time_step(measured), 5);
  result["largest_burst"] = largest_burst(inner_sendings(plan, measured), time_step(measured));
  return result;
}

}  // namespace plangrad::parallel
