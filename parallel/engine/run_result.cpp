// What all ranks found out together is put together from what each of them found.
// Chapter 05.
#include "parallel/engine/run_result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace plangrad::parallel {

RunResult merged(const std::vector<RunResult>& ranks) {
  RunResult world;
  for (RunResult rank : ranks) {
    world.losses.merge(rank.losses);
    world.accuracies.merge(rank.accuracies);
    world.norms.merge(rank.norms);
    for (const auto& [version, seconds] : rank.stepped)
      world.stepped[version] = std::max(world.stepped[version], seconds);
    for (const auto& [version, sums] : rank.squares) {
      auto& all = world.squares[version];
      all.resize(sums.size());
      std::transform(sums.begin(), sums.end(), all.begin(), all.begin(), std::plus<>());
    }
    for (const auto& [kind, bytes] : rank.bytes_sent) world.bytes_sent[kind] += bytes;
    world.late += rank.late;
    world.records.insert(world.records.end(), rank.records.begin(), rank.records.end());
  }
  return world;
}

double loss_of(const RunResult& world, int version, int per_step) {
  double loss = 0;
  for (int micro = (version - 1) * per_step; micro < version * per_step; ++micro)
    loss += world.losses.at(micro) / per_step;
  return loss;
}

double gradient_norm_of(const RunResult& world, int version, int per_step, bool clips) {
  if (clips) return world.norms.at(version);
  const std::vector<double>& squares = world.squares.at(version);
  return std::sqrt(std::accumulate(squares.begin(), squares.end(), 0.0)) / per_step;
}

}  // namespace plangrad::parallel
