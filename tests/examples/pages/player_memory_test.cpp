// The bytes of models that the player's page shows are those that the planner finds.
#include "examples/pages/player/player_parts.h"
#include "parallel/planner/layer_costs.h"
#include "parallel/schedules/schedule.h"
#include "tests/catch.h"

namespace plangrad::examples {
namespace {

constexpr std::int64_t loss = 4;  // bytes of it, however many sequences there are

/// A model in as many stages as it has layers, of which a microbatch is one sequence.
ModelCosts by_layer(const ShownModel& shown, int sequences) {
  return model_costs(planned_model(shown.name), shown.blocks + 2,
                     {.dtype = DType::bf16, .examples = sequences});
}

}  // namespace

TEST_CASE("player: bytes of a model's layers are the planner's") {
  for (const ShownModel& shown : shown_models()) {
    const ModelCosts costs = by_layer(shown, 1), two = by_layer(shown, 2);
    const auto& layers = costs.stages;
    const std::size_t head = shown.blocks + 1;
    REQUIRE(layers.size() == head + 2);  // and the tied table
    const StageBytes &embedding = layers[0].bytes, &block = layers[1].bytes,
                     &last = layers[head].bytes;
    INFO(shown.name);
    CHECK(shown.elements.embedding == embedding.elements);
    CHECK(shown.elements.table == layers[head + 1].bytes.elements);
    CHECK(shown.elements.block == block.elements);
    CHECK(shown.elements.head == last.elements);
    CHECK(shown.kept.embedding == embedding.kept);
    CHECK(shown.kept.block == block.kept);
    CHECK(shown.kept.head == last.kept - loss);
    CHECK(shown.output == block.output);
    for (std::size_t layer : {std::size_t{0}, std::size_t{1}, head})
      CHECK(two.stages[layer].bytes.kept == 2 * layers[layer].bytes.kept - (layer == head) * loss);
    CHECK(block.optimizer == 12 * block.elements);
  }
}

TEST_CASE("player: stages of a model have all of it") {
  const ShownModel& model = shown_models().front();
  const auto [embedding, table, block, head] = model.elements;
  for (bool tied : {false, true}) {
    Layout layout{.stages = 5, .microbatches = 5};
    layout.tied = tied;
    const Sizes sizes = sizes_of(model, make_plan("1f1b", layout), 3);
    CHECK(sizes.activations.size() == 5);
    const double weights = embedding + head + model.blocks * block + (tied ? 1 : 2) * table;
    CHECK(std::reduce(sizes.weights.begin(), sizes.weights.end()) == 2 * weights);
    CHECK(std::reduce(sizes.activations.begin(), sizes.activations.end()) ==
          3 * (model.kept.embedding + model.blocks * model.kept.block + model.kept.head));
  }
}

}  // namespace plangrad::examples
