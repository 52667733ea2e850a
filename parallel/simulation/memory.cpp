// The bytes of what ranks hold: sizes of stages, summed over time.
// Not here: what they hold, and when (holdings.cpp). Chapters 06 to 09.
#include <cmath>

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/holdings.h"

namespace plangrad::parallel {

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
  static constexpr const char* names[memory_kinds] = {
      "optimizer", "weights", "gradient sums", "activations", "messages", "workspace", "indices"};
  return names[static_cast<int>(kind)];
}

namespace {

/// Bytes of a rank's shard of a stage's buffer, which is cut between elements of `element` bytes.
double shard_of(double bytes, int element, int rank, int stage, const Sizes& sizes,
                const std::vector<int>& holders) {
  if (!sizes.shards.empty()) return bytes / sizes.shards.at(stage);
  if (element == 0) return bytes / static_cast<double>(holders.size());
  const auto member = static_cast<double>(std::ranges::find(holders, rank) - holders.begin());
  const auto begin = [&](double i) {
    return std::floor(bytes / element * i / static_cast<double>(holders.size()));
  };
  return element * (begin(member + 1) - begin(member));
}

/// Bytes of a value that passes to others, or comes from them, and of a sum's code.
double bytes_of_message(const Name& name, bool has_code, const Sizes& sizes) {
  switch (name.what) {
    case Value::activation:
    case Value::activation_gradient: return value_at(name.stage, sizes.output);
    case Value::weights: return value_at(name.stage, sizes.weights);
    case Value::gradient_sum:
      return value_at(name.stage, sizes.sum) +
             (has_code ? value_at(name.stage, sizes.sum_code) : 0);
    default: return 0;
  }
}

/// Bytes that an instruction takes beside its values, by the name of what it makes.
double bytes_of_work(const Name& name, const Sizes& sizes) {
  switch (name.what) {
    case Value::activation: return value_at(name.stage, sizes.forward);
    case Value::activation_gradient: return value_at(name.stage, sizes.backward);
    case Value::input_part: return value_at(name.stage, sizes.input_part);
    case Value::weight_part: return value_at(name.stage, sizes.weight_part);
    case Value::gradient_sum: return value_at(name.stage, sizes.sum_window);
    case Value::norm: return sizes.norm;
    default: return 0;
  }
}

Memory memory_of_work(Value what) {
  const bool is_of_group =
      what == Value::gradient_sum || what == Value::weights || what == Value::norm;
  return is_of_group ? Memory::messages : Memory::workspace;
}

}  // namespace

Memory memory_of(const Holding& holding) {
  const Value what = holding.name.what;
  switch (holding.hold) {
    case Hold::weights:
    case Hold::shard:
    case Hold::copy:
    case Hold::expanded: return Memory::weights;
    case Hold::open_sum:
    case Hold::sum:
    case Hold::sum_shard: return Memory::sums;
    case Hold::activations:
    case Hold::input:
    case Hold::waiting:
    case Hold::twice: return Memory::activations;
    case Hold::working:
    case Hold::opening: return memory_of_work(what);
    case Hold::room:
      if (what == Value::weights) return Memory::weights;
      if (what == Value::gradient_sum) return Memory::sums;
      [[fallthrough]];
    default: return Memory::messages;
  }
}

double bytes_of(const Holding& holding, const Sizes& sizes, const Plan& plan,
                const std::vector<std::vector<int>>& holders) {
  const int stage = holding.name.stage;
  const auto shard = [&](const Sizes::List& list, int element) {
    return shard_of(value_at(stage, list), element, holding.rank, stage, sizes, holders.at(stage));
  };
  switch (holding.hold) {
    case Hold::weights:
    case Hold::copy: return value_at(stage, sizes.weights);
    case Hold::shard:  // below level 3 a shard of a whole buffer, of which only this part is new
      return plan.sharded < 3 ? value_at(stage, sizes.weights)
                              : shard(sizes.weights, sizes.weight_element);
    case Hold::open_sum:
    case Hold::sum: return value_at(stage, sizes.sum);
    case Hold::sum_shard: return shard(sizes.sum, sizes.sum_element);
    case Hold::activations: return value_at(stage, sizes.activations);
    case Hold::input: return stage == 0 ? sizes.first_input : value_at(stage - 1, sizes.output);
    case Hold::waiting:
      return sizes.waiting.empty()
                 ? 0
                 : value_at(stage, sizes.waiting) - value_at(stage, sizes.activations);
    case Hold::twice: return -value_at(stage, sizes.output);
    case Hold::expanded: return value_at(stage, sizes.expanded);
    case Hold::opening:
      return value_at(stage,
                      holding.name.what == Value::weight_part ? sizes.opening_part : sizes.opening);
    case Hold::working: return bytes_of_work(holding.name, sizes);
    default: return bytes_of_message(holding.name, holding.hold == Hold::room, sizes);
  }
}

/// What a rank has of its stages as long as it runs.
static MemoryLevel always(const Plan& plan, int rank, const std::set<int>& stages,
                          const Sizes& sizes, const std::vector<std::vector<int>>& holders) {
  MemoryLevel level;
  const auto add = [&](Memory kind, double bytes) { level.bytes[static_cast<int>(kind)] += bytes; };
  for (int stage : stages) {
    const double optimizer = value_at(stage, sizes.optimizer);
    add(Memory::optimizer, plan.sharded == 0 ? optimizer
                                             : shard_of(optimizer, sizes.optimizer_element, rank,
                                                        stage, sizes, holders.at(stage)));
    if (plan.sharded < 3) add(Memory::weights, value_at(stage, sizes.expanded));
    add(Memory::pruning, value_at(stage, sizes.index));
    add(Memory::messages, value_at(stage, sizes.residual));
    if (stage == plan.stages - 1) add(Memory::workspace, sizes.losses);
  }
  return level;
}

std::vector<std::vector<MemoryLevel>> memory_levels(const Plan& plan,
                                                    const std::vector<Holding>& holdings,
                                                    const Sizes& sizes) {
  const std::vector<std::vector<int>> holders = parallel::holders(plan);
  struct Change {
    double seconds, bytes;
    Memory kind;
  };
  std::vector<std::vector<Change>> changes(plan.ranks());
  for (const Holding& each : holdings) {
    const double bytes = bytes_of(each, sizes, plan, holders);
    if (bytes == 0) continue;
    changes[each.rank].push_back({each.start, bytes, memory_of(each)});
    changes[each.rank].push_back({each.end, -bytes, memory_of(each)});
  }
  const std::vector<std::set<int>> held = held_stages(plan);
  std::vector<std::vector<MemoryLevel>> levels(plan.ranks());
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    levels[rank].push_back(always(plan, rank, held[rank], sizes, holders));
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
