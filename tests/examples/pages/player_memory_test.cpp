// The memory that the player's page draws is that of what ranks hold, with the planner's sizes.
#include <nlohmann/json.hpp>

#include "examples/pages/player/player_parts.h"
#include "parallel/planner/peak.h"
#include "parallel/schedules/schedule.h"
#include "parallel/simulation/simulate.h"
#include "tests/catch.h"

namespace plangrad::examples {
namespace {

TEST_CASE("player: peaks of each model are those of the planner's sizes") {
  const Layout layout{.stages = 5, .microbatches = 5, .tied = true};
  const Plan plan = make_plan("1f1b", layout);
  const std::vector<Holding> held = holdings(plan, simulate(verify(plan), Costs()));
  const std::vector<ShownModel> models = shown_models();
  CHECK(models.size() == 7);
  const nlohmann::json memory = memory_json(plan, held, models);
  for (const ShownModel& model : models) {
    CostSettings settings{.dtype = DType::bf16};
    for (int stage = 1; stage < 5; ++stage) settings.cuts.push_back(1 + stage * model.blocks / 5);
    for (int count : {0, 3}) {
      settings.examples = shown_sequences[count];
      const ModelCosts costs = model_costs(planned_model(model.name), 5, settings);
      const std::vector<MemoryLevel> peaks = memory_peaks(plan, held, sizes_of(costs, plan));
      for (int rank = 0; rank < 5; ++rank)  // but for the losses, a few bytes
        CHECK(memory[model.name]["peaks"][count][rank].get<double>() ==
              Approx(peaks[rank].total()).epsilon(1e-7));
    }
  }
  const auto [embedding, table, block, head] = models[0].elements;
  const Sizes untied = sizes_of(models[0], make_plan("1f1b", {.stages = 5, .microbatches = 5}), 3);
  CHECK(untied.weights.front() == 2 * (embedding + table + 2 * block));
  CHECK(untied.weights.back() == 2 * (3 * block + head + table));
}

}  // namespace
}  // namespace plangrad::examples
