// Partition: cuts layers into consecutive stages so that the slowest one is as fast as possible.
// Not here: what layers take (a training counts FLOPs, parallel/planner seconds). Chapter 06.
#pragma once

#include <functional>
#include <vector>

namespace plangrad::parallel {

/// Whether a stage of layers [first, last) fits into the memory of its rank.
using StageFits = std::function<bool(int stage, int first, int last)>;

/// Finds the best cuts by dynamic programming, in stages * layers^2 steps. Among equal ones the
/// earliest cuts count, from the last stage on.
///   costs: of layers;  fits: null: all do
/// returns: stages + 1 ascending numbers of layers, from 0 on; empty: no cuts fit
std::vector<int> partition(const std::vector<double>& costs, int stages,
                           const StageFits& fits = nullptr);

}  // namespace plangrad::parallel
