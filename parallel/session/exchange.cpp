// Results of a world are the sums, maxima or unions of its ranks'.
// Chapter 05.
#include "parallel/session/exchange.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include "parallel/simulation/cell_order.h"

namespace paragrad::parallel {

WorldResult::WorldResult(std::vector<RunResult> ranks) {
  timeline_.ranks = static_cast<int>(ranks.size());
  for (RunResult& rank : ranks) {
    losses_.merge(rank.losses);
    accuracies_.merge(rank.accuracies);
    norms_.merge(rank.norms);
    for (const auto& [version, seconds] : rank.stepped)
      stepped_[version] = std::max(stepped_[version], seconds);
    for (const auto& [version, sums] : rank.squares) {
      auto& all = squares_[version];
      all.resize(sums.size());
      std::transform(sums.begin(), sums.end(), all.begin(), all.begin(), std::plus<>());
    }
    for (const auto& [kind, bytes] : rank.bytes_sent) bytes_sent_[kind] += bytes;
    timeline_.records.insert(timeline_.records.end(), rank.records.begin(), rank.records.end());
  }
}

Plan ran(const Plan& plan, const std::vector<RunResult>& ranks) {
  if (plan.in_flight == 0) return plan;
  std::vector<std::vector<int>> orders;
  for (const RunResult& rank : ranks) orders.push_back(rank.order);
  return recorded(plan, orders);
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
std::set<std::size_t> highest_or_last(const std::vector<MemoryMeter::Event>& events) {
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

std::vector<MemoryMeter::Event> outstanding(const std::vector<MemoryMeter::Event>& events) {
  if (events.size() <= 1000 * category_count) return events;
  std::set<std::size_t> kept = highest_or_last(events);
  for (std::size_t i = 0; i < category_count; ++i) kept.insert(i);  // those at the beginning stay
  std::vector<MemoryMeter::Event> result;
  for (std::size_t i : kept) result.push_back(events[i]);
  return result;
}

std::vector<MemorySample> memory_samples(int rank, const std::vector<MemoryMeter::Event>& events) {
  std::vector<MemorySample> samples;
  for (const MemoryMeter::Event& event : events)
    samples.push_back({rank, event.seconds, name_of(event.category), event.live});
  return samples;
}

}  // namespace paragrad::parallel
