// Pruned state where it meets the rest: a run that is pruned on its way, checkpoints that another
// form and layout goes on with, and that are read dense.

#include "parallel/transports/launch.h"
#include "tests/catch.h"
#include "tests/parallel/support/small_session.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

namespace fs = std::filesystem;

/// Newest weights, all elements, by stage and rank; of ZeRO 3 by stage and -1.
StageWeights weights_of(const Pruned& pruned, const Outcome& outcome, int zero, bool samo) {
  StageWeights stored = by_stage(outcome, zero);
  return samo ? expanded(stored, pruned.training, *pruned.masks) : stored;
}

/// Runs the first plan dense and the others in a form.
StageWeights pruned_on_the_way(const PrunedRun& run, bool samo) {
  Pruned pruned(run, 3, 2);
  pruned.training.form = nullptr;
  Outcome outcome;
  std::mutex mutex;
  run_ranks(pruned.plans[0].plan().ranks(), [&](Transport& transport) {
    set_compute_threads(1);
    Engine engine(pruned.training, transport, cpu_device(), {.timeout = 20});
    engine.run(pruned.plans[0], pruned.batches);
    engine.change_form(pruned.plans[0].plan(),
                       samo ? form_of<SamoForm>(pruned.masks) : form_of<MaskedForm>(pruned.masks));
    for (std::size_t i : {1, 2}) engine.run(pruned.plans[i], pruned.batches);
    std::lock_guard lock(mutex);
    for (auto& [stage, store] : engine.stores())
      outcome.weights[{transport.rank(), stage}] = to_host(store.versions().at(store.newest()));
  });
  return weights_of(pruned, outcome, run.zero, samo);
}

/// How a run is laid out and what it stores.
struct Way {
  int stages, zero;
  bool samo;
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << way.stages << " stages, zero " << way.zero << (way.samo ? ", samo" : ", masked");
}

constexpr int ranks = 4;

Training training_of(const Way& way, DType dtype) {
  Training training(gpt(coded_gpt(true)), way.stages);
  training.clip = 0;
  training.dtype = dtype;
  training.learning_rate = {0.02, 0.002, 1, 8};
  const auto masks = first_masks(training, 0.8, /*all*/ true);
  training.form = way.samo ? form_of<SamoForm>(masks) : form_of<MaskedForm>(masks);
  return training;
}

/// Trains two steps from a checkpoint, if `from` names one, and saves another. Returns all weights
/// and state, as one stage reads them from it.
std::vector<std::vector<double>> train(const Way& way, DType dtype, int first, const fs::path& from,
                                       const fs::path& to) {
  const Training training = training_of(way, dtype);
  Layout layout{.stages = way.stages, .width = ranks, .steps = 2, .first = first};
  layout.tied = way.stages > 1;
  layout.zero = way.zero;
  SmallBatches batches(coded_gpt(true));
  run_and_save(training, make_plan("data", layout), batches, from, to);
  const Checkpoint checkpoint(to);
  const Tensor values = empty({training.whole.numel()}, dtype, cpu_device());
  const Tensor state = empty(values.shape(), gradient_dtype(dtype), values.device());
  checkpoint.check_model(training.whole);
  checkpoint.load_weights(training.whole, values);
  std::vector<std::vector<double>> all{to_host(values)};
  for (const char* name : {"first_moment", "second_moment"}) {
    checkpoint.load_state(name, training.whole, state);
    all.push_back(to_host(state));
  }
  return all;
}

}  // namespace

TEST_CASE("a run that is pruned on its way goes on with the same bits in both forms", "[samo]") {
  for (PrunedRun run : fewer(pruned_runs())) {
    run.recompute = false;
    INFO(run);
    const StageWeights samo = pruned_on_the_way(run, true);
    const bool same = samo == pruned_on_the_way(run, false);
    CHECK(same);
    PrunedRun other = run;
    other.pruned = 0.5;
    CHECK(samo != pruned_on_the_way(other, true));
  }
}

TEST_CASE("ZeRO cuts the state of a run that is pruned on its way anew", "[samo]") {
  PrunedRun run;
  run.schedule = "data";
  const StageWeights plain = pruned_on_the_way(run, true);
  for (int zero : {1, 2, 3}) {
    run.zero = zero;
    for (const auto& [where, weights] : pruned_on_the_way(run, true)) {
      const bool same = weights == plain.at({where.first, std::max(where.second, 0)});
      CHECK(same);
    }
  }
}

TEST_CASE("codecs begin anew when a run is pruned on its way", "[samo]") {
  for (const char* codec : {"quantize:4", "topk:0.1"}) {
    PrunedRun run;
    run.schedule = "data";
    run.pruned = 0.5;
    const StageWeights plain = pruned_on_the_way(run, true);
    run.codec = codec;
    const StageWeights coded = pruned_on_the_way(run, true);
    CHECK(coded != plain);
    for (const auto& [where, weights] : coded) CHECK(weights == coded.at({where.first, 0}));
  }
}

TEST_CASE("a pruned checkpoint: any form and layout goes on with any other's", "[samo]") {
  TemporaryFolder folder;
  const std::vector<Way> ways{{1, 0, true}, {2, 0, false}, {2, 1, true},
                              {2, 2, true}, {1, 3, true},  {2, 3, false}};
  for (DType dtype : {DType::f32, DType::bf16}) {
    const auto half = train({2, 0, false}, dtype, 0, {}, folder.path / "half");
    const auto whole = train({2, 0, false}, dtype, 2, folder.path / "half", folder.path / "end");
    REQUIRE(half != whole);
    for (const Way& way : ways) {
      INFO(dtype << ": " << way);
      CHECK(train(way, dtype, 0, {}, folder.path / "other") == half);
      CHECK(train({1, 0, true}, dtype, 2, folder.path / "other", folder.path / "end") == whole);
      CHECK(train({2, 1, true}, dtype, 2, folder.path / "other", folder.path / "end") == whole);
      CHECK(train(way, dtype, 2, folder.path / "half", folder.path / "end") == whole);
    }
  }
}

TEST_CASE("a pruned checkpoint holds the kept elements, and their index once", "[samo]") {
  TemporaryFolder folder;
  const Way way{1, 0, true};
  train(way, DType::f32, 0, {}, folder.path);
  const Training training = training_of(way, DType::f32);
  const auto masks = first_masks(training, 0.8, true);
  const Checkpoint checkpoint(folder.path);
  std::int64_t bytes = 0, expected = 0;
  for (const auto& file : fs::directory_iterator(folder.path)) {
    if (file.path().extension() != ".safetensors") continue;
    const SafetensorsFile tensors(file.path().string());
    for (const auto& entry : tensors.entries()) bytes += static_cast<std::int64_t>(entry.size);
  }
  for (const Parameter& p : training.whole) {
    CHECK(checkpoint.index(p.name) == masks->at(p.name));
    expected += 4 * 4 * stored_count(p, *masks);  // weight, two moments, index
  }
  CHECK(bytes == expected);
}
