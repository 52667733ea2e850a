// What SAMO frees: gradients of single layers as soon as they are compressed, so that the model's
// dense gradient never exists, and dense weights that ZeRO 3 gathered, once they are used.
// Not here: what it holds (samo_costs_test.cpp). Singh and Bhatele 2023, section III.

#include "autograd/cpu/tile_gemm.h"
#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

/// Most bytes of workspace in two steps of a GPT on one rank, once its weights are there: their
/// first values are dense, too.
std::int64_t peak_workspace(const GptConfig& config, bool recompute) {
  Training training(gpt(config), 1);
  training.clip = 0;
  training.recompute_layers = recompute;
  training.form = form_of<SamoForm>(first_masks(training, 0.9, /*all*/ true));
  const VerifiedPlan plan = verify(make_plan("data", {.microbatches = 2, .steps = 2}));
  SmallBatches batches(config);
  std::int64_t peak = 0;
  run_ranks(1, [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(training, transport, cpu_device(), {.timeout = 20});
    engine.prepare(plan.plan());
    engine.device()->meter().reset_peaks();
    engine.run(plan, batches);
    peak = engine.device()->meter().peak(Category::workspace);
  });
  return peak;
}

/// Elements to which a product packs its factors, (m,k) and (k,n).
std::int64_t packed(std::int64_t m, std::int64_t n, std::int64_t k) {
  auto filled_up = [](std::int64_t x, std::int64_t to) { return (x + to - 1) / to * to; };
  using Product = cpu::PackedGemm<float, float>;
  return k * (filled_up(m, Product::height) + filled_up(n, Product::width));
}

}  // namespace

TEST_CASE("the dense gradient of the model never exists under SAMO", "[samo]") {
  // Most is alive where the first matrix of an MLP (W x 4 W) gets its gradient: that, 4 W of each
  // token to make it from, and W twice: for the layer before, and past it. The losses of a step's
  // two microbatches, and the product's packed factors, come on top; oneDNN's products have scratch
  // memory instead, whose size depends on its release.
  GptConfig config = coded_gpt(false);
  const std::int64_t width = config.width, tokens = 2 * config.context;
  const std::int64_t tensors = 4 * (4 * width * width + tokens * 6 * width + 2);
  std::set<std::int64_t> peaks;
  for (bool recompute : {false, true})
    for (int layers : {2, 6}) {
      config.layers = layers;
      peaks.insert(peak_workspace(config, recompute));
    }
  CAPTURE(peaks, tensors);
  REQUIRE(peaks.size() == 1);
  const std::int64_t scratch = *peaks.begin() - tensors;
  const bool is_known = !PLANGRAD_ONEDNN_PRODUCTS;
  CHECK((is_known ? scratch == 4 * packed(4 * width, width, tokens)
                  : scratch >= 0 && scratch < 32 * 1024));
}

TEST_CASE("between uses ZeRO 3 with SAMO holds its shards of what is kept alone", "[samo]") {
  for (bool all : {false, true}) {
    PrunedRun run;
    run.schedule = "data";
    run.zero = 3;
    run.all = all;
    Pruned pruned(run, 2, 2);
    Outcome outcome = pruned.by_engine();
    std::int64_t sum = 0;
    for (int rank = 0; rank < 4; ++rank) {
      std::int64_t own = 0;
      for (int stage = 0; stage < pruned.training.stages(); ++stage)
        own += 4 * static_cast<std::int64_t>(outcome.weights.at({rank, stage}).size());
      CHECK(outcome.live[rank][Category::weights] == own);
      sum += own;
    }
    CHECK(sum == 4 * stored_count(pruned.training.whole, *pruned.masks));
  }
}
