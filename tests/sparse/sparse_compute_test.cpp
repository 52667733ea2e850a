// Training that computes with kept elements alone: the numbers of dense products with zeros, in
// another order of additions; and what it costs in memory.
// Not here: the products (sparse_matmul_test.cpp, sparse_linear_test.cpp).
// source: Gale et al. 2020
#include "tests/catch.h"
#include "tests/guarded_device.h"
#include "tests/sanitized.h"
#include "tests/sparse/pruned_runs.h"

using namespace plangrad::tests;

namespace {

/// Those of pruned_runs() that prune matrices of linear layers alone.
std::vector<PrunedRun> sparse_runs() {
  std::vector<PrunedRun> runs;
  for (PrunedRun run : pruned_runs()) {
    run.all = false;
    runs.push_back(run);
  }
  return runs;
}

Pruned sparse(const PrunedRun& run, int plans, int steps) {
  Pruned pruned(run, plans, steps);
  pruned.training.form = form_of<SparseForm>(pruned.masks);
  return pruned;
}

/// The largest difference of two runs' weights and losses.
double difference(const Outcome& a, const Outcome& b) {
  double most = 0;
  for (const auto& [where, values] : a.weights)
    for (std::size_t i = 0; i < values.size(); ++i)
      most = std::max(most, std::abs(values[i] - b.weights.at(where).at(i)));
  for (const auto& [micro, loss] : a.losses)
    most = std::max(most, std::abs(loss - b.losses.at(micro)));
  return most;
}

}  // namespace

TEST_CASE("sparse products train what dense ones with zeros do, on every schedule", "[samo]") {
  // In f64 a gradient is some hundred roundings of 2^-53 away from its twin; AdamW's division by
  // its root leaves relative errors as they are, and 8 steps can't make a million times that of it.
  for (PrunedRun run : fewer(sparse_runs())) {
    run.dtype = DType::f64;
    INFO(run);
    Pruned dense(run, 2, 4);
    CHECK(difference(sparse(run, 2, 4).by_engine(), dense.by_engine()) < 1e-8);
  }
}

TEST_CASE("sparse products by the engine have the bits of the serial interpreter", "[samo]") {
  for (PrunedRun run : fewer(sparse_runs()))
    for (DType dtype : {DType::f32, DType::bf16}) {
      run.dtype = dtype;
      INFO(run);
      Pruned pruned = sparse(run, 2, 2);
      const Outcome serial = pruned.serially(), parallel = pruned.by_engine();
      check_same_bits(parallel, serial);
    }
}

TEST_CASE("sparse products use a device's memory through its kernels alone", "[samo]") {
  PrunedRun run;
  run.schedule = "data";
  Pruned pruned = sparse(run, 1, 2);
  Layout layout{.stages = 2, .microbatches = 2, .steps = 2};
  pruned.plans = {verify(make_plan("data", layout))};
  CHECK(run_on_one_rank(pruned.training, pruned.plans, pruned.batches, guarded_device()).weights ==
        run_on_one_rank(pruned.training, pruned.plans, pruned.batches, cpu_device()).weights);
}

/// No weight is there twice. A matrix of M x K with e elements has their places three times (in the
/// shared index, by rows, by columns), the order of the latter, and M + 1 and K + 1 offsets.
TEST_CASE("memory of sparse products", "[samo]") {
  for (const char* schedule : {"gpipe", "2bw"}) {
    PrunedRun run;
    run.schedule = schedule;
    Pruned pruned = sparse(run, 2, 3);
    Outcome outcome = pruned.by_engine();
    const std::int64_t versions = schedule == std::string("2bw") ? 2 : 1;
    for (int rank = 0; rank < 4; ++rank) {
      const ParameterList list = stage_parameters(pruned.training, rank % 2);
      std::int64_t index = 0;
      for (const Parameter& p : list)
        if (pruned.masks->contains(p.name))
          index += 4 * (4 * stored_count(p, *pruned.masks) + p.shape[0] + 1 + p.shape[1] + 1);
      const std::int64_t stored = stored_count(list, *pruned.masks);
      CHECK(outcome.live[rank][Category::weights] == 4 * versions * stored);
      CHECK(outcome.peak[rank][Category::weights] == outcome.live[rank][Category::weights]);
      CHECK(outcome.live[rank][Category::index] == index);
      CHECK(outcome.live[rank][Category::optimizer] == 8 * stored);
    }
  }
}

TEST_CASE("what has no sparse product is refused by name", "[samo]") {
  ParameterList list;
  list.add("wte.weight", {4, 2}, Init::constant(0));
  CHECK_THROWS_WITH(SparseForm(list, {{"wte.weight", {0, 3}}}, cpu_device()),
                    Contains("wte.weight (4,2) is pruned, but is not only multiplied with"));
  CHECK_THROWS_WITH(check_sparse(list, /*all*/ true), Contains("wte.weight"));
  check_sparse(list, /*all*/ false);
}
