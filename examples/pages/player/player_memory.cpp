// The memory of ranks over time, in units that a reader chooses among: counts, or bytes of a model.
// Not here: what ranks hold, and the sum of sizes over time (simulation/holdings.h).
// Chapters 06 to 09.
#include <nlohmann/json.hpp>

#include "examples/pages/player/columns.h"
#include "examples/pages/player/player_parts.h"

namespace plangrad::examples {

Sizes sizes_of(const ShownModel& model, const Plan& plan, double sequences) {
  const auto [embedding, table, block, head] = model.elements;
  const auto [of_embedding, of_block, of_head] = model.kept;
  const bool is_tied = !plan.tied.empty();
  Sizes::List elements, activations;
  for (int stage = 0; stage < plan.stages; ++stage) {
    const bool first = stage == 0, last = stage == plan.stages - 1;
    const int blocks =
        (stage + 1) * model.blocks / plan.stages - stage * model.blocks / plan.stages;
    elements.push_back(first * embedding + blocks * block + last * head +
                       (!is_tied && (first + last)) * table);
    activations.push_back(
        sequences * ((first ? of_embedding : model.output) + blocks * of_block + last * of_head));
  }
  if (is_tied) elements.push_back(table);
  const auto state = [&](double bytes) {
    Sizes::List list = elements;
    for (double& each : list) each *= bytes;
    return list;
  };
  return {.weights = state(model.state[0]),
          .sum = state(model.state[1]),
          .optimizer = state(model.state[2]),
          .activations = activations,
          .output = {model.output * sequences}};
}

/// The memory over time, at sizes of several numbers of sequences. Ranks return to few different
/// levels, which get numbers. More sequences change neither the moments nor the number of a level.
static nlohmann::json unit_json(const Plan& plan, const std::vector<Holding>& held,
                                const std::vector<Sizes>& sizes) {
  std::vector<std::vector<std::vector<MemoryLevel>>> all;  // by sequences and rank
  for (const Sizes& each : sizes) all.push_back(memory_levels(plan, held, each));
  std::map<std::vector<float>, std::int64_t> numbers;
  std::vector<std::vector<double>> columns(all.size() * drawn_kinds);
  nlohmann::json out;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<double> moments;
    std::vector<std::int64_t> level;
    for (std::size_t at = 0; at < all[0][rank].size(); ++at) {
      std::vector<float> bytes;
      for (const auto& levels : all)
        for (int kind = 0; kind < drawn_kinds; ++kind)
          bytes.push_back(static_cast<float>(levels[rank][at].bytes[kind]));
      const auto [found, is_new] = numbers.try_emplace(bytes, std::ssize(numbers));
      for (std::size_t i = 0; is_new && i < bytes.size(); ++i) columns[i].push_back(bytes[i]);
      moments.push_back(all[0][rank][at].seconds);
      level.push_back(found->second);
    }
    out["moments"].push_back(pack(moments));
    out["level"].push_back(pack(level));
    for (std::size_t i = 0; i < all.size(); ++i)
      out["peaks"][i].push_back(
          std::ranges::max_element(all[i][rank], {}, &MemoryLevel::total)->total());
  }
  for (const std::vector<double>& column : columns) out["bytes"].push_back(pack(column));
  return out;
}

nlohmann::json memory_json(const Plan& plan, const std::vector<Holding>& held,
                           const std::vector<ShownModel>& models) {
  nlohmann::json units{{"activations", unit_json(plan, held, {{.activations = {1}}})},
                       {"versions", unit_json(plan, held, {{.weights = {1}}})}};
  for (const ShownModel& model : models) {
    std::vector<Sizes> sizes;
    for (int sequences : shown_sequences) sizes.push_back(sizes_of(model, plan, sequences));
    units[model.name] = unit_json(plan, held, sizes);
  }
  return units;
}

}  // namespace plangrad::examples
