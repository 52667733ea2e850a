// A plan's header says how many stages there are, and whether the first and the last share a table.
// Chapter 06.
#include "examples/programs/plan_model.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "autograd/cpu/cpu_backend.h"
#include "examples/programs/program.h"
#include "parallel/planner/stage_seconds.h"
#include "sparse/pruning.h"

namespace plangrad::examples {

using namespace parallel;

void ModelFlags::add_flags(CLI::App& app) {
  Flags flags(app);
  flags.group("Model (its bytes, and the memory that ranks need)");
  flags.words("--model", model, "NAME",
              fmt::format("{}; or a file with the JSON of a GPT, as checkpoints have it",
                          fmt::join(planned_models(), ", ")));
  flags.whole("--sequences", sequences, 1, "sequences, or images, of a microbatch");
  flags.choice("--dtype", dtype, {"f32", "bf16"}, "type of weights and activations");
  flags.number("--prune", prune, 0, 0.9999,
               "share of each matrix that is pruned; ranks store the rest (SAMO)");
  flags.choice("--device", device, {"cpu", "gpu"},
               "whose memory: kernels of this machine's CPU need scratch; a GPU adds gradients "
               "into sums, and the scratch of its kernels is not counted");
  flags.whole("--threads", threads, 1, "compute threads of a rank on the CPU");
}

bool ModelFlags::is_tied(int stages) const {
  return Training(planned_model(model).layers, stages).shared.parameters.size() > 0;
}

ModelCosts ModelFlags::costs(const Plan& plan, const Layout& layout) const {
  set_compute_threads(threads);
  CostSettings settings{.dtype = dtype == "bf16" ? DType::bf16 : DType::f32,
                        .examples = sequences,
                        .recompute_layers = layout.recompute && plan.stages == 1,
                        .cuts = layout.cuts,
                        .pruned = prune,
                        .stored = sparse::stored_count};
  if (device == "cpu") settings.like = std::make_shared<autograd::CpuBackend>();
  ModelCosts costs = model_costs(planned_model(model), plan.stages, settings);
  const bool is_tied = costs.training.shared.parameters.size() > 0;
  PG_CHECK(is_tied == !plan.tied.empty(), "--model ", model, ": its stages share ",
           is_tied ? "a table, and those of the plan nothing" : "nothing, and those of the plan do",
           "; make a plan with --schedule, which takes this from the model");
  return costs;
}

Costs with_bytes(Costs costs, const ModelCosts& model, const Plan& plan) {
  const auto is_free = [](const std::vector<std::int64_t>& list) {
    return std::ranges::all_of(list, [](std::int64_t bytes) { return bytes == 0; });
  };
  const bool sets_outputs = is_free(costs.activation_bytes),
             sets_weights = is_free(costs.weight_bytes);
  if (sets_outputs) costs.activation_bytes.clear();
  if (sets_weights) costs.weight_bytes.clear(), costs.sum_bytes.clear();
  const std::int64_t weight = size_of(model.settings.dtype);
  for (const StageCosts& stage : model.stages) {
    if (sets_outputs &&
        costs.activation_bytes.size() < static_cast<std::size_t>(model.training.stages()))
      costs.activation_bytes.push_back(stage.bytes.output);
    if (!sets_weights) continue;
    costs.weight_bytes.push_back(weight * stage.bytes.stored);
    costs.sum_bytes.push_back(sent_sum_bytes(stage, plan.codec));
  }
  return costs;
}

Costs with_seconds(Costs costs, const ModelCosts& model) {
  const Costs plain;
  if (!costs.machine || costs.forward != plain.forward || costs.backward != plain.backward)
    return costs;
  costs.forward.clear();
  costs.backward.clear();
  std::vector<StageSeconds> stages = stage_seconds(model, *costs.machine);
  stages.resize(model.training.stages());  // without the tied one
  for (const StageSeconds& stage : stages) {
    costs.forward.push_back(stage.forward);
    costs.backward.push_back(stage.backward);
    costs.input_part.push_back(stage.input_part);
    costs.weight_part.push_back(stage.weight_part);
  }
  return costs;
}

nlohmann::json memory_json(const std::vector<Peak>& peaks) {
  const Peak& most = fullest(peaks);
  nlohmann::json totals = nlohmann::json::array(), bytes = nlohmann::json::object();
  for (const Peak& peak : peaks) totals.push_back(peak.total());
  for (int kind = 0; kind < memory_kinds; ++kind)
    if (most.level.bytes[kind] > 0) bytes[name_of(Memory(kind))] = most.level.bytes[kind];
  nlohmann::json full{{"rank", most.rank}, {"bytes", bytes}, {"seconds", most.level.seconds}};
  if (most.cell >= 0) full["cell"] = print(most.during), full["index"] = most.cell;
  if (most.saving > 0) full["saving"] = most.saving;
  return {{"peaks", totals}, {"fullest", full}};
}

}  // namespace plangrad::examples
