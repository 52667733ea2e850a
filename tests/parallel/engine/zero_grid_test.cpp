// ZeRO as schedules make it, in combinations of its options, by the engine: the bits of the serial
// interpreter and, where no norm is added up in another order, of the same layout without ZeRO.
// Not here: plans written by hand (sharding_test.cpp); what ZeRO costs (sharding_costs_test.cpp).
// Chapter 09.
#include "tests/catch.h"
#include "tests/parallel/support/grid.h"
#include "tests/sanitized.h"

using namespace plangrad::tests;

namespace {

struct ZeroCase : Case {
  int zero;
  DType dtype = DType::f32;
};

std::ostream& operator<<(std::ostream& out, const ZeroCase& c) {
  return out << "zero " << c.zero << ' ' << static_cast<const Case&>(c) << ' ' << c.dtype;
}

/// What ZeRO goes with.
const std::vector<std::pair<std::string, int>> forms{
    {"data", 1}, {"data", 2}, {"data", 3}, {"gpipe", 1}, {"1f1b", 1}, {"2bw", 1}, {"pipedream", 1}};

/// Two plans of two steps; without ZeRO, if `zero` is 0.
Outcome run(const ZeroCase& c, int zero, bool serially = false) {
  Training training = training_of(c);
  training.dtype = c.dtype;
  Layout layout = layout_of(c, 2);
  layout.zero = zero;
  const auto plans = plans_of(c.schedule, layout, 2);
  SmallBatches batches(small_gpt(c.tied));
  return serially ? run_serially(training, plans, batches)
                  : run_by_engine(training, plans, batches);
}

/// Of each stage on each rank that holds it. The shards of ZeRO 3, which goes with data alone, are
/// put together.
std::map<std::pair<int, int>, std::vector<double>> whole_weights(const Outcome& outcome, int zero) {
  if (zero < 3) return outcome.weights;
  std::map<int, std::vector<double>> stages;
  for (const auto& [where, shard] : outcome.weights)
    stages[where.second].insert(stages[where.second].end(), shard.begin(), shard.end());
  std::map<std::pair<int, int>, std::vector<double>> whole;
  for (const auto& [where, shard] : outcome.weights) whole[where] = stages.at(where.second);
  return whole;
}

void check(const ZeroCase& c) {
  INFO(c);
  const Outcome sharded = run(c, c.zero), serial = run(c, c.zero, true);
  check_same_bits(sharded, serial);
  CHECK(sharded.losses.size() == 4u * c.width * c.microbatches);
  if (c.clip) return;
  const Outcome plain = run(c, 0);
  CHECK(whole_weights(sharded, c.zero) == plain.weights);
  CHECK(sharded.losses == plain.losses);
}

}  // namespace

TEST_CASE("plans of schedules with ZeRO learn as those without, whatever goes with them",
          "[zero]") {
  std::vector<ZeroCase> cases;
  for (const auto& [schedule, zero] : forms)
    for (int microbatches : {1, 2})
      for (bool tied : {false, true})
        for (bool clip : {false, true})
          for (bool recompute : {false, true}) {
            const Case c{schedule, 2, 2, microbatches, recompute, clip, tied, /*sgd*/ false};
            if (schedule == "pipedream" && tied && clip)
              CHECK_THROWS_WITH(run({c, zero}, zero), Contains("pipedream with ZeRO, clipping"));
            else
              cases.push_back({c, zero});
          }
  for (const ZeroCase& c : fewer(cases)) check(c);
}

TEST_CASE("ZeRO on three ranks of a stage, by SGD, and in bf16", "[zero]") {
  for (const auto& [schedule, zero] : forms) {
    const Case plain{schedule, 2, 2, 2, false, false, /*tied*/ true, false};
    Case wide = plain, sgd = plain;
    wide.width = 3;
    sgd.sgd = true;
    check({wide, zero});
    check({sgd, zero});
    check({plain, zero, DType::bf16});
  }
}
