// The bytes of what ranks hold: sizes of stages, summed over time.
// Not here: what they hold, and when (holdings.cpp).
// Chapters 06 to 09.
#include <numeric>

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/holdings.h"

namespace plangrad::parallel {
namespace {

double of(int stage, const std::vector<double>& list) {
  return list.size() == 1 ? list[0] : list.at(stage);
}

}  // namespace

bool Sizes::any() const {
  for (const auto* list : {&weights, &sum, &optimizer, &activations, &output})
    if (std::ranges::any_of(*list, [](double bytes) { return bytes > 0; })) return true;
  return false;
}

Sizes sizes_of(const Costs& costs) {
  const auto doubles = [](const std::vector<std::int64_t>& list) {
    return std::vector<double>(list.begin(), list.end());
  };
  Sizes sizes;
  sizes.weights = sizes.sum = doubles(costs.weight_bytes);
  sizes.activations = sizes.output =
      doubles(costs.output_bytes.empty() ? costs.activation_bytes : costs.output_bytes);
  return sizes;
}

const char* name_of(Memory kind) {
  static constexpr const char* names[memory_kinds] = {"optimizer", "weights", "gradient sums",
                                                      "activations", "messages"};
  return names[static_cast<int>(kind)];
}

Memory memory_of(Hold hold) {
  switch (hold) {
    case Hold::weights:
    case Hold::shard:
    case Hold::copy: return Memory::weights;
    case Hold::open_sum:
    case Hold::sum: return Memory::sums;
    case Hold::activations:
    case Hold::input: return Memory::activations;
    default: return Memory::messages;
  }
}

double bytes_of(const Holding& holding, const Sizes& sizes, const Plan& plan,
                const std::vector<int>& sharers) {
  const int stage = holding.name.stage;
  const auto shard_of = [&](double bytes) { return bytes / std::max(1, sharers.at(stage)); };
  switch (holding.hold) {
    case Hold::weights:
    case Hold::copy: return of(stage, sizes.weights);
    case Hold::shard: return shard_of(of(stage, sizes.weights));
    case Hold::open_sum: return of(stage, sizes.sum);
    case Hold::sum: return plan.sharded < 2 ? of(stage, sizes.sum) : shard_of(of(stage, sizes.sum));
    case Hold::activations: return of(stage, sizes.activations);
    case Hold::input: return of(std::max(0, stage - 1), sizes.output);
    default: break;
  }
  const Value what = holding.name.what;
  const bool is_data = what == Value::activation || what == Value::activation_gradient;
  return is_data ? of(stage, sizes.output) : 0;
}

double MemoryLevel::total() const { return std::accumulate(bytes.begin(), bytes.end(), 0.0); }

std::vector<std::vector<MemoryLevel>> memory_levels(const Plan& plan,
                                                    const std::vector<Holding>& holdings,
                                                    const Sizes& sizes) {
  std::vector<int> sharers;
  for (const std::vector<int>& ranks : holders(plan))
    sharers.push_back(static_cast<int>(ranks.size()));
  struct Change {
    double seconds, bytes;
    Memory kind;
  };
  std::vector<std::vector<Change>> changes(plan.ranks());
  for (const Holding& each : holdings) {
    const double bytes = bytes_of(each, sizes, plan, sharers);
    if (bytes <= 0) continue;
    changes[each.rank].push_back({each.start, bytes, memory_of(each.hold)});
    changes[each.rank].push_back({each.end, -bytes, memory_of(each.hold)});
  }
  const std::vector<std::set<int>> held = held_stages(plan);
  std::vector<std::vector<MemoryLevel>> levels(plan.ranks(), {MemoryLevel()});
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    for (int stage : held[rank])
      levels[rank][0].bytes[static_cast<int>(Memory::optimizer)] +=
          of(stage, sizes.optimizer) / (plan.sharded > 0 ? std::max(1, sharers[stage]) : 1);
    std::ranges::stable_sort(changes[rank], {}, &Change::seconds);
    for (const auto& [seconds, bytes, kind] : changes[rank]) {
      if (levels[rank].back().seconds < seconds) {
        levels[rank].push_back(levels[rank].back());
        levels[rank].back().seconds = seconds;
      }
      levels[rank].back().bytes[static_cast<int>(kind)] += bytes;
    }
  }
  return levels;
}

std::vector<MemoryLevel> memory_peaks(const Plan& plan, const std::vector<Holding>& holdings,
                                      const Sizes& sizes) {
  std::vector<MemoryLevel> peaks;
  for (const std::vector<MemoryLevel>& levels : memory_levels(plan, holdings, sizes))
    peaks.push_back(*std::ranges::max_element(levels, {}, &MemoryLevel::total));
  return peaks;
}

}  // namespace plangrad::parallel
