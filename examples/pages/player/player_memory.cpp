// The sizes of what ranks hold, in units that a reader chooses among: counts, or bytes of a GPT-2.
// Not here: what ranks hold (simulation/holdings.h).
// Chapters 06 to 09.
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "examples/pages/player/columns.h"
#include "examples/pages/player/player_parts.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/holdings.h"

namespace plangrad::parallel {
namespace {

struct GptShape {
  const char* key;
  double parameters, layers, width, heads, tokens;
};
constexpr GptShape models[] = {{"124M", 124439808, 12, 768, 12, 1024},
                               {"1.5B", 1557611200, 48, 1600, 25, 1024}};

/// Bytes of one of `stages` equal stages, with this many sequences in a microbatch. Weights and
/// gradients have 2 bytes a parameter, Adam's state 12 (two moments and a copy in 32 bits).
/// source: Rajbhandari et al. 2020, "ZeRO", section 3.1; activations of a layer, T C (34 + 5 heads
///         T / C) bytes a sequence: Korthikanti et al. 2022, equation 1
Sizes sizes_of(const GptShape& model, int stages, double sequences) {
  const auto& [key, parameters, layers, width, heads, tokens] = model;
  const double layer = tokens * width * (34 + 5 * heads * tokens / width) * sequences;
  return {.weights = {2 * parameters / stages},
          .sum = {2 * parameters / stages},
          .optimizer = {12 * parameters / stages},
          .activations = {layer * layers / stages},
          .output = {2 * tokens * width * sequences}};
}

}  // namespace

nlohmann::json memory_json(const Plan& plan, const std::vector<Holding>& held) {
  const std::vector<std::vector<int>> ranks = holders(plan);
  std::map<std::tuple<Hold, Value, int>, std::int64_t> sizes;  // by what decides them: their number
  std::vector<Holding> examples;
  std::vector<std::int64_t> column;
  for (const Holding& each : held) {
    const auto number = static_cast<std::int64_t>(examples.size());
    const auto [found, is_new] =
        sizes.try_emplace({each.hold, each.name.what, each.name.stage}, number);
    if (is_new) examples.push_back(each);
    column.push_back(found->second);
  }
  nlohmann::json units;
  auto add = [&](const char* key, const Sizes& fixed, const Sizes& with_sequence) {
    nlohmann::json& unit = units[key] = {{"sizes", nlohmann::json::array()}};
    for (const Holding& each : examples) {
      const double bytes = bytes_of(each, fixed, plan, ranks);
      unit["sizes"].push_back({static_cast<int>(memory_of(each)), bytes,
                               bytes_of(each, with_sequence, plan, ranks) - bytes});
    }
    for (const auto& levels : memory_levels(plan, {}, fixed))
      unit["optimizer"].push_back(levels.front().total());
  };
  const Sizes activations{.activations = {1}}, versions{.weights = {1}};
  add("activations", activations, activations);
  add("versions", versions, versions);
  for (const GptShape& model : models)
    add(model.key, sizes_of(model, plan.stages, 0), sizes_of(model, plan.stages, 1));
  return {{"size", pack(column)}, {"units", units}};
}

}  // namespace plangrad::parallel
