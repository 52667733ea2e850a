// Costs of stages on the blank device against the CPU's meter and against published formulas:
// activations (chapter 03; Korthikanti et al. 2022), FLOPs, and models that no machine here holds.
#include "parallel/planner/layer_costs.h"

#include "autograd/blank/blank_device.h"
#include "autograd/cpu/cpu_backend.h"
#include "nn/models/gpt.h"
#include "nn/models/resnet.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

PlannedModel planned(const GptConfig& config) {
  return {.name = "small",
          .layers = gpt(config),
          .input = {config.context},
          .target = {config.context}};
}

PlannedModel planned_resnet(std::int64_t width) {
  PlannedModel model = planned_model("resnet18");
  model.layers = resnet18({.channels = 3, .size = 32, .width = width});
  return model;
}

/// What a stage takes on the CPU, all layers of it.
StageBytes bytes_on_cpu(const ModelCosts& costs, int stage, const PlannedModel& model) {
  const DevicePtr device = cpu_device();
  const Training& training = costs.training;
  const auto shape = [&](std::vector<std::int64_t> example) {
    example.insert(example.begin(), costs.settings.examples);
    return Shape(example);
  };
  const bool has_ids = stage == 0 && model.has_ids;
  const Shape input = output_shape(training.model, 0, training.cuts[stage], shape(model.input));
  return run_stage(
             training, stage, device,
             [&] { return zeros(input, has_ids ? DType::i32 : training.dtype, device); },
             [&] { return zeros(shape(model.target), DType::i32, device); })
      .bytes;
}

void check_equal(const StageBytes& blank, const StageBytes& cpu) {
  StageBytes::for_each([&](auto bytes) { CHECK(blank.*bytes == cpu.*bytes); });
}

std::shared_ptr<Backend> like_cpu() { return std::make_shared<CpuBackend>(); }

double flops_of(const KernelTable& kernels, const std::string& name) {
  double flops = 0;
  for (const auto& [kind, calls] : kernels)
    if (kind.starts_with(name)) flops += calls.flops;
  return flops;
}

}  // namespace

TEST_CASE("layer costs: a stage's bytes are the CPU's, to the byte", "[planner]") {
  set_compute_threads(1);
  const PlannedModel gpt =
      planned({.layers = 5, .heads = 2, .width = 32, .context = 16, .vocabulary = 37});
  const PlannedModel untied = planned({.layers = 4,
                                       .heads = 4,
                                       .width = 24,
                                       .context = 8,
                                       .vocabulary = 100,
                                       .dropout = 0.1,
                                       .tied = false});
  const PlannedModel resnet = planned_resnet(4);
  int cases = 0;
  for (const PlannedModel* model : {&gpt, &untied, &resnet})
    for (const int stages : {1, 2, 3})
      for (const DType dtype : {DType::f32, DType::bf16})
        for (const bool recompute : {false, true}) {
          const ModelCosts costs = model_costs(
              *model, stages,
              {.dtype = dtype, .examples = 2, .recompute_layers = recompute, .like = like_cpu()});
          for (int stage = 0; stage < stages; ++stage, ++cases) {
            INFO(model->name << ' ' << stages << " stages, " << dtype << ", stage " << stage
                             << (recompute ? ", recompute" : ""));
            check_equal(costs.stages[stage].bytes, bytes_on_cpu(costs, stage, *model));
          }
        }
  CHECK(cases == 72);
}

TEST_CASE("layer costs: four sequences of 64 in 4 x 128", "[planner]") {
  set_compute_threads(1);
  const PlannedModel model =
      planned({.layers = 4, .heads = 4, .width = 128, .context = 64, .vocabulary = 65});
  const auto kept = [&](DType dtype) {
    return model_costs(model, 1, {.dtype = dtype, .examples = 4}).stages[0].bytes.kept;
  };
  CHECK(kept(DType::f32) == 8'753'156);
  CHECK(kept(DType::bf16) == 4'394'500);
}
