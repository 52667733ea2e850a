// The partition of layers against all cuts there are. Chapter 06.
#include "parallel/engine/training.h"

#include <limits>
#include <random>

#include "tests/catch.h"

using namespace plangrad::parallel;

namespace {

constexpr double never = std::numeric_limits<double>::infinity();

double slowest(const std::vector<double>& costs, const std::vector<int>& cuts) {
  double most = cuts.empty() ? never : 0;
  for (std::size_t stage = 0; stage + 1 < cuts.size(); ++stage) {
    double sum = 0;
    for (int layer = cuts[stage]; layer < cuts[stage + 1]; ++layer) sum += costs[layer];
    most = std::max(most, sum);
  }
  return most;
}

/// The slowest stage of the best of all cuts of which each stage fits; infinite: there are none.
double best_of_all(const std::vector<double>& costs, int stages, const StageFits& fits,
                   std::vector<int> cuts = {0}) {
  const int stage = static_cast<int>(cuts.size()) - 1, layers = static_cast<int>(costs.size());
  if (stage == stages) return cuts.back() == layers ? slowest(costs, cuts) : never;
  double best = never;
  for (int next = cuts.back() + 1; next <= layers; ++next) {
    if (!fits(stage, cuts.back(), next)) continue;
    cuts.push_back(next);
    best = std::min(best, best_of_all(costs, stages, fits, cuts));
    cuts.pop_back();
  }
  return best;
}

}  // namespace

TEST_CASE("partition: as good as the best of all cuts, with memory that stages share unevenly") {
  std::mt19937 random(1);
  const auto drawn = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  int refused = 0;
  for (int i = 0; i < 300; ++i) {
    const int layers = drawn(1, 9), stages = drawn(1, std::min(4, layers)), memory = drawn(8, 40);
    std::vector<double> costs, bytes;
    for (int layer = 0; layer < layers; ++layer)
      costs.push_back(drawn(1, 9)), bytes.push_back(drawn(1, 9));
    // An earlier stage waits for more microbatches, as in a pipeline.
    const auto fits = [&](int stage, int first, int last) {
      double sum = 0;
      for (int layer = first; layer < last; ++layer) sum += bytes[layer];
      return sum * (stages - stage) <= memory;
    };
    CAPTURE(i, layers, stages, memory);
    const std::vector<int> cuts = partition(costs, stages, fits);
    CHECK(slowest(costs, cuts) == best_of_all(costs, stages, fits));
    refused += cuts.empty();
    for (int stage = 0; !cuts.empty() && stage < stages; ++stage)
      CHECK(fits(stage, cuts[stage], cuts[stage + 1]));
  }
  CHECK(refused > 30);
  CHECK(refused < 270);
}
