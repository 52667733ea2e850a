// JSON carries the numbers: it writes doubles so that they are read back exactly.
// Chapter 05.
#include "parallel/session/exchange.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>

#include "parallel/simulation/cell_order.h"

namespace paragrad::parallel {

using nlohmann::json;

json to_json(const RunResult& result, bool records) {
  json out{{"losses", result.losses},
           {"accuracies", result.accuracies},
           {"norms", result.norms},
           {"squares", result.squares},
           {"stepped", result.stepped},
           {"bytes", result.bytes_sent},
           {"records", json::array()},
           {"bits", json::object()},
           {"order", records ? result.order : std::vector<int>()}};
  for (const auto& [layer, options] : result.bit_options)
    for (const BitOption& option : options)
      out["bits"][layer].push_back({option.bytes, option.error});
  for (const Record& record : result.records)
    if (records)
      out["records"].push_back({record.rank, record.lane == Lane::compute,
                                print(record.instruction), record.start, record.end, record.bytes});
  return out;
}

WorldResult::WorldResult(const std::vector<json>& ranks) {
  timeline_.ranks = static_cast<int>(ranks.size());
  for (const json& rank : ranks) {
    losses_.merge(rank.at("losses").get<std::map<int, double>>());
    accuracies_.merge(rank.at("accuracies").get<std::map<int, double>>());
    norms_.merge(rank.at("norms").get<std::map<int, double>>());
    for (const auto& [version, seconds] : rank.at("stepped").get<std::map<int, double>>())
      stepped_[version] = std::max(stepped_[version], seconds);
    for (const auto& [version, sums] :
         rank.at("squares").get<std::map<int, std::vector<double>>>()) {
      auto& all = squares_[version];
      all.resize(sums.size());
      std::transform(sums.begin(), sums.end(), all.begin(), all.begin(), std::plus<>());
    }
    for (const auto& [kind, bytes] : rank.at("bytes").get<std::map<std::string, std::int64_t>>())
      bytes_sent_[kind] += bytes;
    for (const json& x : rank.at("records"))
      timeline_.records.push_back({x[0], x[1].get<bool>() ? Lane::compute : Lane::message,
                                   parse_instruction(x[2]), x[3], x[4], x[5]});
  }
}

Plan ran(const Plan& plan, const std::vector<json>& ranks) {
  if (plan.in_flight == 0) return plan;
  std::vector<std::vector<int>> orders;
  for (const json& rank : ranks) orders.push_back(rank.at("order"));
  return recorded(plan, orders);
}

/// An error that isn't finite has no text in JSON but null.
BitOptions bit_options(const json& rank) {
  BitOptions all;
  for (const auto& [layer, options] : rank.at("bits").items())
    for (const json& option : options)
      all[layer].push_back({option[0], option[1].is_null()
                                           ? std::numeric_limits<double>::quiet_NaN()
                                           : option[1].get<double>()});
  return all;
}

std::vector<StepResult> WorldResult::steps(const Plan& plan) const {
  std::int64_t bytes = 0;
  for (const auto& [kind, count] : bytes_sent_) bytes += count;
  double seconds = 0;
  for (const auto& [version, at] : stepped_) seconds = std::max(seconds, at);
  std::vector<StepResult> results;
  for (int version = plan.first + 1; version <= plan.first + plan.steps; ++version) {
    StepResult step;
    for (int micro = (version - 1) * plan.per_step; micro < version * plan.per_step; ++micro)
      step.loss += losses_.at(micro) / plan.per_step;
    if (plan.clip) {
      step.gradient_norm = norms_.at(version);
    } else {
      const std::vector<double>& squares = squares_.at(version);
      step.gradient_norm =
          std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / plan.per_step;
    }
    step.seconds = std::max(seconds / plan.steps, 1e-9);
    step.bytes_sent = bytes / plan.steps;
    results.push_back(step);
  }
  return results;
}

namespace {

/// The highest and the last of each category in each thousandth of the time.
std::set<std::size_t> outstanding(const std::vector<MemoryMeter::Event>& events) {
  std::map<std::pair<Category, int>, std::pair<std::size_t, std::size_t>> parts;  // highest, last
  const double seconds = std::max(events.back().seconds, 1e-9);
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto part = static_cast<int>(events[i].seconds / seconds * 1000);
    auto& [highest, last] = parts.try_emplace({events[i].category, part}, i, i).first->second;
    if (events[i].live > events[highest].live) highest = i;
    last = i;
  }
  std::set<std::size_t> result;
  for (const auto& [part, ends] : parts) result.insert({ends.first, ends.second});
  return result;
}

}  // namespace

json to_json(const std::vector<MemoryMeter::Event>& events) {
  const bool few = events.size() <= 1000 * category_count;
  const std::set<std::size_t> kept = few ? std::set<std::size_t>() : outstanding(events);
  json out = json::array();
  for (std::size_t i = 0; i < events.size(); ++i)
    if (few || i < category_count || kept.count(i) > 0)  // those at the beginning stay
      out.push_back({events[i].seconds, name_of(events[i].category), events[i].live});
  return out;
}

std::vector<MemorySample> memory_samples(int rank, const json& events) {
  std::vector<MemorySample> samples;
  for (const json& event : events) samples.push_back({rank, event[0], event[1], event[2]});
  return samples;
}

}  // namespace paragrad::parallel
