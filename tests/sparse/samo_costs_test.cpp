// What SAMO costs: memory by category and bytes on the wire, as equalities.
// source: Singh and Bhatele 2023, section III
#include <numeric>

#include "tests/catch.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

const std::vector<double> fractions{0.25, 0.5, 0.8, 0.9, 0.95};

/// Elements of a stage: all, those that are stored, and those of pruned parameters that are.
struct Counts {
  std::int64_t all = 0, stored = 0, indexed = 0;
};

Counts counts_of(const Training& training, int stage, const Masks& masks) {
  const ParameterList list = stage_parameters(training, stage);
  Counts counts{list.numel(), stored_count(list, masks), 0};
  for (const Parameter& p : list)
    if (masks.contains(p.name)) counts.indexed += stored_count(p, masks);
  return counts;
}

/// Of all stages that a rank computes: in a pipeline one, else all.
Counts counts_of(const Pruned& pruned, const PrunedRun& run, int rank) {
  Counts counts;
  const int stages = pruned.training.stages();
  for (int stage = 0; stage < stages; ++stage) {
    if (run.schedule != "data" && stage != rank % stages) continue;
    const Counts own = counts_of(pruned.training, stage, *pruned.masks);
    counts = {counts.all + own.all, counts.stored + own.stored, counts.indexed + own.indexed};
  }
  return counts;
}

PrunedRun run_of(const std::string& schedule, double pruned, bool all, DType dtype = DType::f32) {
  PrunedRun run;
  run.schedule = schedule;
  run.pruned = pruned;
  run.all = all;
  run.dtype = dtype;
  return run;
}

}  // namespace

/// phi elements, of which f phi are kept:
///            weights           index     sum       optimizer
///   f32      4 phi + 4 f phi   4 f phi   4 f phi    8 f phi
///   bf16     2 phi + 2 f phi   4 f phi   4 f phi   12 f phi
/// and another f phi of weights for each version more.
TEST_CASE("memory with SAMO, by category", "[samo]") {
  for (const char* schedule : fewer<const char*>({"2bw", "data", "gpipe", "1f1b"}, 2))
    for (bool all : {false, true})
      for (DType dtype : {DType::f32, DType::bf16})
        for (double fraction : fewer(fractions)) {
          const PrunedRun run = run_of(schedule, fraction, all, dtype);
          INFO(run);
          Pruned pruned(run, 2, 2);
          Outcome outcome = pruned.by_engine();
          const std::int64_t weight = dtype == DType::f32 ? 4 : 2;
          const std::int64_t state = dtype == DType::f32 ? 8 : 12;
          const std::int64_t versions = schedule == std::string("2bw") ? 2 : 1;
          for (int rank = 0; rank < 4; ++rank) {
            const Counts counts = counts_of(pruned, run, rank);
            auto& live = outcome.live[rank];
            auto& peak = outcome.peak[rank];
            CHECK(live[Category::weights] == weight * (counts.all + versions * counts.stored));
            CHECK(live[Category::optimizer] == state * counts.stored);
            CHECK(peak[Category::optimizer] == live[Category::optimizer]);
            CHECK(live[Category::index] == 4 * counts.indexed);
            CHECK(peak[Category::index] == live[Category::index]);
            CHECK(peak[Category::weights] == live[Category::weights]);
            CHECK(live[Category::gradients] == 0);
            if (versions == 1) CHECK(peak[Category::gradients] == 4 * counts.stored);
          }
        }
}

TEST_CASE("memory in bf16 is 22 f phi + 2 phi bytes with SAMO, and 18 phi without", "[samo]") {
  for (double fraction : fractions) {
    const PrunedRun run = run_of("gpipe", fraction, /*all*/ true, DType::bf16);
    INFO(run);
    Pruned pruned(run, 1, 2);
    Outcome samo = pruned.by_engine();
    pruned.training.form = nullptr;
    Outcome dense = pruned.by_engine();
    for (int rank = 0; rank < 4; ++rank) {
      const Counts counts = counts_of(pruned, run, rank);
      const std::int64_t phi = counts.all, kept = counts.stored;  // kept = f phi
      auto total = [&](Outcome& outcome) {
        std::int64_t bytes = outcome.peak[rank][Category::gradients];
        for (Category c : {Category::weights, Category::optimizer, Category::index})
          bytes += outcome.live[rank][c];
        return bytes;
      };
      // The paper's terms but one, the 16-bit gradient (2 f phi); so it has 24 f phi + 2 phi. Its
      // copy of the step's 16-bit result is our stored version.
      const std::int64_t theta16 = 2 * phi, downcast = 2 * kept, index = 4 * kept;
      const std::int64_t gradient32 = 4 * kept, theta32 = 4 * kept, moments = 8 * kept;
      CHECK(samo.live[rank][Category::weights] == theta16 + downcast);
      CHECK(samo.live[rank][Category::index] == index);
      CHECK(samo.peak[rank][Category::gradients] == gradient32);
      CHECK(samo.live[rank][Category::optimizer] == theta32 + moments);
      CHECK(total(samo) == 22 * kept + 2 * phi);
      CHECK(total(dense) == 18 * phi);
    }
  }
}

TEST_CASE("2BW with SAMO has two stored versions and one that is expanded", "[samo]") {
  const PrunedRun run = run_of("2bw", 0.9, false);
  Pruned pruned(run, 2, 3);
  Outcome samo = pruned.by_engine();
  pruned.training.form = nullptr;
  Outcome dense = pruned.by_engine();
  for (int rank = 0; rank < 4; ++rank) {
    const Counts counts = counts_of(pruned, run, rank);
    CHECK(samo.peak_weights[rank] == 4 * (counts.all + 2 * counts.stored));
    CHECK(dense.peak_weights[rank] == 4 * 2 * counts.all);
  }
}

TEST_CASE("the index of a tied table is where the table is", "[samo]") {
  Training training = small_training(3, true);
  const auto masks = first_masks(training, 0.8, /*all*/ true);
  training.form = form_of<SamoForm>(masks);
  SmallBatches batches(small_gpt(true));
  Layout layout{.stages = 3, .microbatches = 2, .steps = 2};
  layout.tied = true;
  Outcome outcome = run_by_engine(training, plans_of("1f1b", layout), batches);
  for (int rank : {0, 1, 2}) {
    std::int64_t count = counts_of(training, rank, *masks).indexed;
    if (rank != 1) count += counts_of(training, /*tied*/ 3, *masks).indexed;
    CHECK(outcome.live[rank][Category::index] == 4 * count);
  }
}

namespace {

/// Bytes of reductions in one step, by all ranks.
std::int64_t reduction_bytes(const PrunedRun& run, bool samo) {
  Pruned pruned(run, 1, 1);
  if (!samo) pruned.training.form = nullptr;
  std::int64_t bytes = 0;
  for (RunResult& result : pruned.by_engine().last) bytes += result.bytes_sent["reductions"];
  return bytes;
}

/// Of a stage's sum in an all-reduce over so many ranks: each chunk is sent by all others, and to
/// all others.
std::int64_t predicted_bytes(const ParameterList& list, const CodecSpec& spec, int ranks) {
  const BufferCodec codec(list, spec, {}, cpu_device());
  std::int64_t bytes = 0;
  for (int chunk = 0; chunk < ranks; ++chunk) {
    const Range range = chunk_range(list.numel(), chunk, ranks);
    bytes += 2 * (ranks - 1) * (spec.is_none() ? 4 * range.size() : codec.encoded_bytes(range));
  }
  return bytes;
}

}  // namespace

TEST_CASE("reductions of pruned layers send f times the bytes", "[samo]") {
  for (const char* schedule : {"data", "gpipe", "1f1b", "2bw"})
    for (bool all : {false, true})
      for (double fraction : fractions) {
        const PrunedRun run = run_of(schedule, fraction, all);
        INFO(run);
        Pruned pruned(run, 1, 1);
        const int ranks = run.schedule == "data" ? 4 : 2;
        std::int64_t stored = 0, dense = 0;
        for (int stage = 0; stage < 2; ++stage) {
          const Counts counts = counts_of(pruned.training, stage, *pruned.masks);
          stored += 4 * 2 * (ranks - 1) * counts.stored;
          dense += 4 * 2 * (ranks - 1) * counts.all;
        }
        CHECK(reduction_bytes(run, true) == stored);
        CHECK(reduction_bytes(run, false) == dense);
      }
}

TEST_CASE("a 4-bit codec and SAMO: the bytes are the product of both", "[samo]") {
  // The plan's bytes are the codec's for what is stored.
  for (double fraction : {0.5, 0.8}) {
    PrunedRun run = run_of("data", fraction, false);
    run.codec = "quantize:4:64";
    INFO(run);
    Pruned pruned(run, 1, 1);
    std::int64_t bytes = 0;
    for (int stage = 0; stage < 2; ++stage) {
      const ParameterList list = stage_parameters(pruned.training, stage);
      const StateFormPtr form = pruned.training.form(list, cpu_device());
      bytes += predicted_bytes(form->stored(), parse_codec(run.codec), 4);
    }
    CHECK(reduction_bytes(run, true) == bytes);
  }
  // And the codec's for a layer: where buckets are full, f times those of the whole.
  const std::int64_t count = 1 << 16;
  ParameterList dense;
  dense.add("h.0.w", {256, 256}, Init::constant(0));
  const auto spec = parse_codec("quantize:4:64");
  const std::int64_t whole = predicted_bytes(dense, spec, 4);
  CHECK(whole == 2 * 3 * count / 64 * (32 + 8));  // a bucket is 64 half-bytes and two numbers
  for (double fraction : {0.25, 0.5, 0.875}) {
    Index index(kept_count(count, fraction));
    std::iota(index.begin(), index.end(), 0);
    const SamoForm form(dense, {{"h.0.w", index}}, cpu_device());
    CHECK(static_cast<double>(predicted_bytes(form.stored(), spec, 4)) ==
          (1 - fraction) * static_cast<double>(whole));
  }
}
