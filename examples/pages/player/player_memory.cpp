// The sizes of what ranks hold, in units that a reader chooses among: counts, or bytes of a model.
// Not here: what ranks hold (simulation/holdings.h).
// Chapters 06 to 09.
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "examples/pages/player/columns.h"
#include "examples/pages/player/player_parts.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/holdings.h"

namespace plangrad::examples {

const std::vector<ShownModel>& shown_models() {
  static const std::vector<ShownModel> all{
      {"gpt2-124m", 12, {786432, 38597376, 7087872, 1536}, {1576960, 26804224, 106080256}, 1572864},
      {"gpt3-xl",
       24,
       {4194304, 104857600, 50358272, 4096},
       {8396800, 142770176, 226508800},
       8388608},
      {"2bw-2.2b",
       32,
       {1179648, 117964800, 63730944, 4608},
       {2361344, 40181760, 57151488},
       2359296},
      {"gpt3-2.7b",
       32,
       {5242880, 131072000, 78676480, 5120},
       {10493952, 178552832, 230703104},
       10485760},
      {"2bw-3.8b",
       32,
       {1572864, 157286400, 113286144, 6144},
       {3147776, 53551104, 58724352},
       3145728},
      {"gpt3-6.7b",
       32,
       {8388608, 209715200, 201379840, 8192},
       {16785408, 285507584, 243286016},
       16777216},
      {"gpt3-13b",
       40,
       {10485760, 262144000, 314639360, 10240},
       {20979712, 356876288, 251674624},
       20971520}};
  return all;
}

Sizes sizes_of(const ShownModel& model, const Plan& plan, double sequences) {
  const auto [embedding, table, block, head] = model.elements;
  Sizes sizes{.weights = {},
              .sum = {},
              .optimizer = {},
              .activations = {},
              .output = {model.output * sequences}};
  auto add_stage = [&](double elements) {
    sizes.weights.push_back(2 * elements);
    sizes.sum.push_back(4 * elements);
    sizes.optimizer.push_back(12 * elements);
  };
  const bool is_tied = !plan.tied.empty();
  for (int stage = 0; stage < plan.stages; ++stage) {
    const bool first = stage == 0, last = stage == plan.stages - 1;
    const int blocks =
        (stage + 1) * model.blocks / plan.stages - stage * model.blocks / plan.stages;
    add_stage(first * embedding + blocks * block + last * head +
              (!is_tied && (first + last)) * table);
    const auto [of_embedding, of_block, of_head] = model.kept;
    sizes.activations.push_back(sequences *
                                (first * of_embedding + blocks * of_block + last * of_head));
  }
  if (is_tied) add_stage(table);
  return sizes;
}

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
  for (const ShownModel& model : shown_models())
    add(model.name, sizes_of(model, plan, 0), sizes_of(model, plan, 1));
  return {{"size", pack(column)}, {"units", units}};
}

}  // namespace plangrad::examples
