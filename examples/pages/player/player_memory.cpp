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

/// A GPT in bf16. For each token, a norm keeps two numbers of 4 bytes, and attention one a head.
static ShownModel gpt(const char* name, int blocks, double heads, double width, double context,
                      double words = 51200) {
  const double output = 2 * context * width;
  return {name,
          blocks,
          {context * width, words * width, 12 * width * width + 13 * width, 2 * width},
          {output + 4 * context,  // ids of tokens
           17 * output + 4 * context * heads + 2 * 8 * context,
           2 * output + 8 * context + 2 * context * words},  // logits
          output};
}

const std::vector<ShownModel>& shown_models() {
  static const std::vector<ShownModel> all{
      gpt("gpt2-124m", 12, 12, 768, 1024, 50257), gpt("gpt3-xl", 24, 16, 2048, 2048),
      gpt("2bw-2.2b", 32, 32, 2304, 512),         gpt("gpt3-2.7b", 32, 32, 2560, 2048),
      gpt("2bw-3.8b", 32, 32, 3072, 512),         gpt("gpt3-6.7b", 32, 32, 4096, 2048),
      gpt("gpt3-13b", 40, 40, 5120, 2048)};
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
