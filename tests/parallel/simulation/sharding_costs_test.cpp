// ZeRO's memory and messages are the formulas', by the meter and by what ranks send.
// source: Rajbhandari et al. 2020, figure 1 and section 7
#include "tests/catch.h"
#include "tests/parallel/support/sharded_run.h"

using namespace plangrad::tests;

namespace {

std::vector<std::int64_t> shards(std::vector<std::int64_t> counts, int rank, int ranks) {
  for (std::int64_t& count : counts) count = chunk_range(count, rank, ranks).size();
  return counts;
}

/// The most elements of one kind along a row: `alive` are there from the start; changes(x) says how
/// many come with an instruction, and how many go after it.
std::int64_t peak_along(
    const Row& row, std::int64_t alive,
    const std::function<std::pair<std::int64_t, std::int64_t>(const Instruction&)>& changes) {
  std::int64_t peak = alive;
  for (const Instruction& x : row) {
    auto [more, less] = changes(x);
    peak = std::max(peak, alive += more);
    alive -= less;
  }
  return peak;
}

}  // namespace

TEST_CASE("memory: 4 phi, 4 phi and 8 phi, and what ZeRO leaves of them", "[sharding]") {
  for (int ranks : {2, 3, 4})
    for (int stages : {1, 3})
      for (int zero : {0, 1, 2, 3})
        for (DType dtype : {DType::f32, DType::bf16}) {
          Form form{zero, ranks, stages};
          form.dtype = dtype;
          INFO(form);
          Outcome outcome = run(form);
          const std::int64_t bytes = dtype == DType::f32 ? 4 : 2;  // of a weight
          const std::int64_t state = dtype == DType::f32 ? 8 : 12;
          const auto stage_counts = counts(training_of(form));
          const std::int64_t all = sum(stage_counts);
          for (int rank = 0; rank < ranks; ++rank) {
            const auto own_counts = shards(stage_counts, rank, ranks);
            const std::int64_t own = sum(own_counts);
            auto live = outcome.live[rank], peak = outcome.peak[rank];
            CHECK(live[Category::weights] == bytes * (zero == 3 ? own : all));
            CHECK(live[Category::optimizer] == state * (zero == 0 ? all : own));
            CHECK(peak[Category::optimizer] == live[Category::optimizer]);
            CHECK(live[Category::gradients] == 0);
            const Plan plan = plan_of(form, 2);
            auto of_sum = [&](const Instruction& x) -> std::pair<std::int64_t, std::int64_t> {
              if (x.op == Op::backward) return {stage_counts[x.stage], 0};
              if (x.op == Op::drop && x.what == Value::gradient_sum)
                return {own_counts[x.stage], stage_counts[x.stage]};
              if (x.op != Op::step) return {0, 0};
              return {0, zero >= 2 ? own_counts[x.stage] : stage_counts[x.stage]};
            };
            CHECK(peak[Category::gradients] == 4 * peak_along(plan.rows[rank], 0, of_sum));
            auto of_weights = [&](const Instruction& x) -> std::pair<std::int64_t, std::int64_t> {
              if (zero < 3 || x.what != Value::weights) return {0, 0};
              const std::int64_t count = stage_counts[x.stage];
              return x.op == Op::gather ? std::pair(count, 0 * count) : std::pair(0 * count, count);
            };
            CHECK(peak[Category::weights] ==
                  bytes * peak_along(plan.rows[rank], zero == 3 ? own : all, of_weights));
          }
        }
}

TEST_CASE("messages: 2 phi, 2 phi and 3 phi", "[sharding]") {
  for (int ranks : {2, 3, 4})
    for (int stages : {1, 3})
      for (AllReduce reduction : {AllReduce::scatter_reduce, AllReduce::ring})
        for (int zero : {0, 1, 2, 3}) {
          Form form{zero, ranks, stages};
          form.reduction = reduction;
          INFO(form);
          Outcome outcome = run(form);
          const std::int64_t steps = 2;  // of the last plan
          const std::int64_t phi = sum(counts(training_of(form)));
          const int sums = zero == 0 ? 2 : 1, gathers = zero == 0 ? 0 : zero == 3 ? 2 : 1;
          std::int64_t sum_bytes = 0, weight_bytes = 0;
          for (const RunResult& result : outcome.last) {
            auto sent = result.bytes_sent;
            sum_bytes += sent["reductions"];
            weight_bytes += sent["gathers"];
            // Shards differ by an element a stage, so a rank's part does by that times N.
            double mean =
                4.0 * static_cast<double>(steps * phi * (sums + gathers)) * (ranks - 1) / ranks;
            double off = 4.0 * static_cast<double>(steps * stages * ranks * (sums + gathers));
            CHECK(std::abs(static_cast<double>(sent["reductions"] + sent["gathers"]) - mean) <=
                  off);
          }
          CHECK(sum_bytes == 4 * steps * sums * (ranks - 1) * phi);
          CHECK(weight_bytes == 4 * steps * gathers * (ranks - 1) * phi);
        }
}
