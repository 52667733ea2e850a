// Predicted peaks of memory against the meters of real runs, in 232 layouts; against published
// sizes of activations, and runs that were published as fitting a GPU or not.
#include "parallel/planner/peak.h"

#include "autograd/cpu/cpu_backend.h"
#include "parallel/simulation/simulate.h"
#include "sparse/samo.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_run.h"

using namespace plangrad::tests;
using namespace plangrad::parallel;
namespace sparse = plangrad::sparse;

namespace {

/// A way to train, beside the layout.
struct Manner {
  DType dtype = DType::f32;
  bool recompute = false, pruned = false;
};

/// A plan that was run, and what is predicted for it.
struct Run {
  VerifiedPlan plan;
  std::vector<Peak> peaks, least;  ///< while pieces of sums are on their way, and without these
  std::vector<MemoryLevel> most;   ///< of each kind by itself, by rank
  Outcome outcome;

  bool sends(Value what) const {
    for (const Row& row : plan.plan().rows)
      for (const Instruction& x : row)
        if (x.op == Op::send && x.what == what) return true;
    return false;
  }
};

constexpr double pruned = 0.75;

/// Random masks, the same number of elements as any other method keeps.
sparse::Masks masks_of(const ParameterList& parameters) {
  std::vector<sparse::Candidate> candidates;
  for (const Parameter& parameter : parameters)
    if (sparse::is_prunable(parameter))
      candidates.push_back(
          {parameter.name, 0, sparse::random_keys(parameter.name, parameter.shape.numel(), 1)});
  return sparse::prune_each(candidates, pruned);
}

Run run_of(const std::string& schedule, Layout layout, const Manner& manner,
           const GptConfig& config, int rows, AllReduce reduction = AllReduce::scatter_reduce) {
  set_compute_threads(1);
  CostSettings settings{.dtype = manner.dtype,
                        .examples = rows,
                        .recompute_layers = manner.recompute && layout.stages == 1,
                        .like = std::make_shared<CpuBackend>()};
  if (manner.pruned) settings.pruned = pruned, settings.stored = sparse::stored_count;
  ModelCosts costs = model_costs(planned_gpt("small", config), layout.stages, settings);
  layout.tied = costs.training.shared.parameters.size() > 0;
  layout.recompute = manner.recompute && layout.stages > 1;
  Training training = costs.training;
  training.clip = layout.clip ? 1 : 0;
  if (manner.pruned)
    training.form = sparse::form_of<sparse::SamoForm>(
        std::make_shared<const sparse::Masks>(masks_of(training.whole)));

  const VerifiedPlan plan = verify(make_plan(schedule, layout));
  const Costs time = one_by_one({.backward = {2}, .step = {0.5}});
  const Timeline timeline = simulate(plan, time);
  const Plan ran = in_order(plan.plan(), time);
  const Sizes sizes = sizes_of(costs, ran, reduction);
  SmallBatches batches(config, rows);
  Sizes without = sizes;
  without.sum_window = {0};
  Run run{plan,
          peaks(ran, timeline, sizes),
          peaks(ran, timeline, without),
          {},
          run_by_engine(training, {plan}, batches, 0, reduction)};
  for (const auto& levels : memory_levels(ran, timeline, sizes)) {
    MemoryLevel& most = run.most.emplace_back();
    for (const MemoryLevel& level : levels)
      for (int kind = 0; kind < memory_kinds; ++kind)
        most.bytes[kind] = std::max(most.bytes[kind], level.bytes[kind]);
  }
  return run;
}

double most_of(const Run& run, int rank, Memory kind) {
  return run.most[rank].bytes[static_cast<int>(kind)];
}

/// Weights, gradients and optimizer state to the byte; everything together within 3%. Pieces of
/// sums that are on their way may be gone by the time that a rank has the most.
void check_run(const Run& run) {
  const Plan& plan = run.plan.plan();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    INFO("rank " << rank << " in " << print(run.peaks[rank].during));
    const auto& real = run.outcome.peak[rank];
    CHECK(most_of(run, rank, Memory::optimizer) == real.at(Category::optimizer));
    // What travels from rank to rank is there for as long as a message waits.
    if (!run.sends(Value::weights))
      CHECK(most_of(run, rank, Memory::weights) == real.at(Category::weights));
    if (!run.sends(Value::gradient_sum))
      CHECK(most_of(run, rank, Memory::sums) == real.at(Category::gradients));
    CHECK(most_of(run, rank, Memory::pruning) == real.at(Category::index));
    const auto total = static_cast<double>(run.outcome.peak_total[rank]);
    if (plan.ranks() == 1) CHECK(run.peaks[rank].level.total() == total);
    CHECK(total < 1.03 * run.peaks[rank].level.total());
    CHECK(total > 0.97 * run.least[rank].level.total());
  }
}

Layout with_zero(Layout layout, int level) {
  layout.zero = level;
  return layout;
}

struct Case {
  std::string schedule;
  Layout layout;
};

std::vector<Case> cases() {
  std::vector<Case> all{{"data", {.microbatches = 3, .steps = 2}},
                        {"data", {.stages = 2, .microbatches = 2, .steps = 2}},
                        {"1f1b", {.stages = 2, .width = 2, .microbatches = 3, .steps = 2}},
                        {"gpipe", {.stages = 2, .width = 2, .microbatches = 2, .steps = 3}},
                        {"interleaved", {.stages = 4, .microbatches = 4, .steps = 2}},
                        {"looped-bfs", {.stages = 4, .microbatches = 4, .steps = 2}},
                        {"1f1b", {.stages = 4, .microbatches = 6, .steps = 2}}};
  for (const int level : {0, 1, 2, 3})
    for (const int stages : {1, 3})
      all.push_back(
          {"data",
           with_zero({.stages = stages, .width = 2, .microbatches = 2, .steps = 2}, level)});
  all.push_back({"data", with_zero({.width = 4, .steps = 2}, 3)});
  all.push_back({"data", with_zero({.width = 3, .microbatches = 2, .steps = 2}, 2)});
  all.push_back({"1f1b", with_zero({.stages = 2, .width = 2, .microbatches = 2, .steps = 2}, 1)});
  for (const char* schedule :
       {"gpipe", "1f1b", "2bw", "pipedream", "paci", "zb-h1", "zb-h2", "zb-v", "dualpipe-v"})
    all.push_back({schedule, {.stages = 4, .microbatches = 4, .steps = 3}});
  // On several ranks of a cyclic run, what a rank has depends on how long messages wait.
  for (const char* schedule : {"cyclic-v1", "cyclic-v2"})
    all.push_back(
        {schedule, {.stages = 4, .microbatches = 4, .steps = 3, .setting = Setting::one_device}});
  return all;
}

}  // namespace

TEST_CASE("peaks: 232 layouts against the meter", "[planner]") {
  const GptConfig config{.layers = 6, .heads = 2, .width = 64, .context = 16, .vocabulary = 65};
  int runs = 0;
  for (const Case& each : cases())
    for (const DType dtype : {DType::f32, DType::bf16})
      for (const bool recompute : {false, true})
        for (const bool pruned : {false, true}) {
          Layout layout = each.layout;
          layout.clip = each.schedule != "cyclic-v2";  // which can't clip
          INFO(each.schedule << " D" << layout.stages << " W" << layout.width << " M"
                             << layout.microbatches << " zero " << layout.zero << ' ' << dtype
                             << (recompute ? " recompute" : "") << (pruned ? " SAMO" : ""));
          check_run(run_of(each.schedule, layout, {dtype, recompute, pruned}, config, 2));
          ++runs;
        }
  CHECK(runs == 232);
}

TEST_CASE("peaks: four runs of 4 x 128, four microbatches of four sequences", "[planner]") {
  const GptConfig config{.layers = 4, .heads = 4, .width = 128, .context = 64, .vocabulary = 65};
  const Layout layout{.microbatches = 4, .steps = 2, .clip = true};
  struct WithoutScratch : CpuBackend {
    void without_values(const std::function<void()>&) override {}
  };
  // What products take that are packed by tile_gemm.h, where oneDNN has none: dW = dy^T x of a
  // block's last layer, (128,256) (256,512), in panels of 16 columns and of 6 rows.
  const std::int64_t packed = 4 * 256 * (512 + 22 * 6);
  const auto check = [&](DType dtype, bool recompute, std::int64_t expected) {
    INFO(dtype << (recompute ? " recompute" : ""));
    const Run run = run_of("data", layout, {dtype, recompute}, config, 4);
    CHECK(run.peaks[0].level.total() == run.outcome.peak_total[0]);
    const ModelCosts bare = model_costs(planned_gpt("small", config), 1,
                                        {.dtype = dtype,
                                         .examples = 4,
                                         .recompute_layers = recompute,
                                         .like = std::make_shared<WithoutScratch>()});
    const Plan& plan = run.plan.plan();
    const Timeline timeline = simulate(run.plan, one_by_one({.backward = {2}}));
    CHECK(peaks(plan, timeline, sizes_of(bare, plan))[0].level.total() + packed == expected);
  };
  check(DType::f32, false, 22'957'588);
  check(DType::bf16, false, 20'055'316);
  check(DType::f32, true, 17'166'868);
  check(DType::bf16, true, 17'148'180);
}

TEST_CASE("peaks: codecs and kinds of reductions, within 3% on the fullest rank", "[planner]") {
  const GptConfig config{.layers = 6, .heads = 2, .width = 64, .context = 16, .vocabulary = 65};
  const auto check = [](const Run& run) {
    const auto real = static_cast<double>(std::ranges::max(run.outcome.peak_total));
    CHECK(real < 1.03 * fullest(run.peaks).level.total());
    CHECK(real > 0.97 * fullest(run.least).level.total());
  };
  for (const int width : {2, 3}) {
    Layout layout{.width = width, .microbatches = 2, .steps = 2, .clip = true};
    for (const char* codec : {"quantize:4", "topk:0.1", "lowrank:2", "pca:2"}) {
      INFO(codec << " of " << width);
      layout.codec = parse_codec(codec);
      check(run_of("data", layout, {}, config, 2));
    }
    layout.codec = {};
    for (const AllReduce how : {AllReduce::ring, AllReduce::direct, reductions().at("tree")}) {
      INFO(name_of(how) << " of " << width);
      check(run_of("data", layout, {}, config, 2, how));
    }
  }
}

// Sums of one update are on their way while the next one begins its own: how long both are there,
// and how much else then, is a matter of time.
TEST_CASE("peaks: with sums that take no time or long, 2BW's replicas have less and more",
          "[planner]") {
  const GptConfig config{.layers = 6, .heads = 2, .width = 64, .context = 16, .vocabulary = 65};
  for (const DType dtype : {DType::f32, DType::bf16}) {
    Layout layout{.stages = 2, .width = 2, .microbatches = 2, .steps = 3, .clip = true};
    const Run run = run_of("2bw", layout, {dtype}, config, 2);
    const ModelCosts costs =
        model_costs(planned_gpt("small", config), 2,
                    {.dtype = dtype, .examples = 2, .like = std::make_shared<CpuBackend>()});
    Costs slow = one_by_one({.backward = {2}, .step = {0.5}, .bandwidth = 1, .weight_bytes = {3}});
    const Plan& plan = run.plan.plan();
    const auto most = peaks(plan, simulate(run.plan, slow), sizes_of(costs, plan));
    for (int rank = 0; rank < plan.ranks(); ++rank) {
      INFO(dtype << " rank " << rank);
      const auto total = static_cast<double>(run.outcome.peak_total[rank]);
      CHECK(run.least[rank].level.total() < most[rank].level.total());
      CHECK(total > 0.97 * run.least[rank].level.total());
      CHECK(total < 1.03 * most[rank].level.total());
    }
  }
}

// In PipeDream-2BW's figure 10, on 8 GPUs of 16 GB, of which its runtime leaves 15.3, GPipe has
// room for 32 sequences of 2.2B with recomputation, and not for 64 or 256: it keeps logits in f32
// for all microbatches. Ours does not, so this limit is not reproduced: with recomputation all
// three fit, and only the GPipe that keeps all activations ends there.
TEST_CASE("peaks: GPipe fits 2.2B with 256 sequences if it recomputes, and else with 32",
          "[planner]") {
  const ModelCosts costs =
      model_costs(planned_model("2bw-2.2b"), 8, {.dtype = DType::bf16, .examples = 8});
  const auto bytes = [&](int sequences, bool recompute) {
    const Layout layout{
        .stages = 8, .microbatches = sequences / 8, .recompute = recompute, .tied = true};
    const VerifiedPlan plan = verify(make_plan("gpipe", layout));
    const Timeline timeline = simulate(plan, one_by_one({.backward = {2}}));
    return fullest(peaks(plan.plan(), timeline, sizes_of(costs, plan.plan()))).total();
  };
  for (const int sequences : {32, 64, 256}) {
    CHECK(bytes(sequences, true) < 15.3e9);
    CHECK((bytes(sequences, false) < 15.3e9) == (sequences == 32));
  }
}

TEST_CASE("peaks: a rank's saved checkpoint has all of the optimizer's state", "[planner]") {
  const ModelCosts costs = model_costs(planned_model("gpt2-124m"), 1, {});
  const auto saving = [&](int level, int rank) {
    const VerifiedPlan plan = verify(make_plan("data", with_zero({.width = 2}, level)));
    const Timeline timeline = simulate(plan, one_by_one({}));
    return peaks(plan.plan(), timeline, sizes_of(costs, plan.plan()))[rank].saving;
  };
  const double state = static_cast<double>(costs.stages[0].bytes.optimizer);
  CHECK(saving(0, 0) == 0);
  CHECK(saving(1, 0) - saving(1, 1) == state);
  const double weights = 4.0 * static_cast<double>(costs.stages[0].bytes.elements);
  const auto with_losses = [](double bytes) { return Catch::Matchers::WithinAbs(bytes, 64); };
  CHECK_THAT(saving(1, 1), with_losses(weights + state / 2));
  CHECK_THAT(saving(2, 1), with_losses(weights + state / 2));
  CHECK_THAT(saving(3, 1), with_losses(weights / 2 + state / 2));
}
