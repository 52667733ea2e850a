// Costs of stages on the blank device against the CPU's meter and against published formulas:
// activations (chapter 03; Korthikanti et al. 2022), FLOPs, and models that no machine here holds.
#include "parallel/planner/layer_costs.h"

#include <sys/resource.h>

#include "autograd/blank/blank_device.h"
#include "autograd/cpu/cpu_backend.h"
#include "nn/models/resnet.h"
#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

PlannedModel planned_resnet(std::int64_t width) {
  PlannedModel model = planned_model("resnet18");
  model.layers = resnet18({.channels = 3, .size = 32, .width = width});
  return model;
}

/// What a stage takes on the CPU.
StageBytes bytes_on_cpu(const ModelCosts& costs, int stage, const PlannedModel& model) {
  return run_stage(costs, stage, model, cpu_device()).bytes;
}

void check_equal(const StageBytes& blank, const StageBytes& cpu) {
  using Bytes = StageBytes;
  for (auto bytes :
       {&Bytes::kept, &Bytes::forward, &Bytes::backward, &Bytes::input_part, &Bytes::weight_part,
        &Bytes::opening, &Bytes::opening_part, &Bytes::waiting, &Bytes::input, &Bytes::output})
    CHECK(blank.*bytes == cpu.*bytes);
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
  const PlannedModel gpt = planned_gpt(
      "small", {.layers = 5, .heads = 2, .width = 32, .context = 16, .vocabulary = 1000});
  const PlannedModel untied = planned_gpt("small", {.layers = 4,
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
  const PlannedModel model = planned_gpt(
      "small", {.layers = 4, .heads = 4, .width = 128, .context = 64, .vocabulary = 65});
  const auto kept = [&](DType dtype) {
    return model_costs(model, 1, {.dtype = dtype, .examples = 4}).stages[0].bytes.kept;
  };
  CHECK(kept(DType::f32) == 8'753'156);
  CHECK(kept(DType::bf16) == 4'394'500);
}

TEST_CASE("layer costs: activations and FLOPs are chapter 3's formulas", "[planner]") {
  const GptConfig config{.layers = 6, .heads = 4, .width = 64, .context = 32, .vocabulary = 65};
  constexpr std::int64_t sequences = 3;
  const std::int64_t n = sequences * config.context, c = config.width, layers = config.layers;
  for (const DType dtype : {DType::f32, DType::bf16}) {
    const StageCosts costs =
        model_costs(planned_gpt("small", config), 1, {.dtype = dtype, .examples = sequences})
            .stages[0];
    const std::int64_t rows = n * c * (16 * layers + 2) + n * config.vocabulary;
    const std::int64_t statistics = n * (4 * layers + 2) + n * config.heads * layers;
    const std::int64_t ids = n, loss = 1;  // targets and the losses of tokens are gone
    CHECK(costs.bytes.kept == size_of(dtype) * rows + 4 * (statistics + ids + loss));
    double flops = 0;
    for (const KernelTable* part : {&costs.work.forward, &costs.work.backward})
      flops += flops_of(*part, "gemm") + 2 * flops_of(*part, "attention");  // it skips half
    CHECK(flops == static_cast<double>(n) * gpt_flops_per_token(config, config.context));
    CHECK(costs.bytes.elements ==
          layers * (12 * c * c + 13 * c) + (config.vocabulary + config.context + 2) * c);
  }
}

TEST_CASE("layer costs: one block more, or a second forward, costs what it must", "[planner]") {
  const auto costs = [](int layers, bool recompute) {
    const GptConfig config{
        .layers = layers, .heads = 2, .width = 32, .context = 16, .vocabulary = 37};
    return model_costs(planned_gpt("small", config), 1,
                       {.examples = 2, .recompute_layers = recompute})
        .stages[0];
  };
  const StageCosts few = costs(5, false), many = costs(6, false), again = costs(6, true);
  const double block = 2.0 * 32 * (12 * 32 * 32);  // 32 tokens
  CHECK(flops_of(many.work.forward, "gemm") - flops_of(few.work.forward, "gemm") == block);
  CHECK(flops_of(again.work.forward, "gemm") == flops_of(many.work.forward, "gemm"));
  CHECK(flops_of(again.work.backward, "gemm") ==
        flops_of(many.work.backward, "gemm") + flops_of(many.work.forward, "gemm"));
  // Of a block, only what enters it.
  CHECK(again.bytes.kept < many.bytes.kept / 4);
  CHECK(flops_of(many.work.input_part, "gemm") + flops_of(many.work.weight_part, "gemm") ==
        flops_of(many.work.backward, "gemm"));
}

TEST_CASE("layer costs: 40 blocks of width 5120 take no memory", "[planner]") {
  const auto most_used = [] {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;  // KiB
  };
  const long before = most_used();
  const StageCosts costs =
      model_costs(planned_model("gpt3-13b"), 1, {.dtype = DType::bf16, .like = like_cpu()})
          .stages[0];
  CHECK(costs.bytes.elements == 40L * 5120 * (12 * 5120 + 13) + (51200 + 2048 + 2) * 5120L);
  CHECK(costs.bytes.kept == 13'687'873'540);
  CHECK(most_used() - before < 300 * 1024);
}

// Korthikanti et al. 2022, equations 1 and 6 with selective recomputation, and table 3's runs: with
// sequence parallelism a rank keeps 34 s b h L / t, times 1 + (p-1)/(p v) on an interleaved
// pipeline's first stage. Two of the 34 are masks of dropout, which our kernels draw again.
TEST_CASE("layer costs: a block keeps what Megatron's keeps, less its masks", "[planner]") {
  struct Published {
    int layers, heads, width, batch, tensor, pipeline, chunks;
    double gib;
  };
  for (const Published& run : {Published{48, 64, 6144, 4, 8, 1, 1, 9.5625},
                               Published{96, 96, 12288, 1, 8, 8, 3, 12.3515625}}) {
    const auto kept = [&](int layers) {
      const GptConfig config{.layers = layers,
                             .heads = run.heads,
                             .width = run.width,
                             .context = 2048,
                             .vocabulary = 51200};
      return model_costs(planned_gpt("small", config), 1,
                         {.dtype = DType::bf16, .examples = run.batch})
          .stages[0]
          .bytes.kept;
    };
    const std::int64_t tokens = 2048L * run.batch, block = kept(5) - kept(4);
    const std::int64_t statistics = 4 * tokens * (4 + run.heads), masks = 2 * tokens * run.width;
    CHECK(block - statistics + masks == 34 * tokens * run.width);
    const double under_way =
        run.chunks == 1 ? 1 : 1 + (run.pipeline - 1.0) / (run.pipeline * run.chunks);
    const double bytes = static_cast<double>(block - statistics + masks) * run.layers;
    CHECK(bytes / run.tensor * under_way == run.gib * (1 << 30));
  }
}
