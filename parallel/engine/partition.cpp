// The first n layers in s stages are `cut` layers in s - 1 stages, and a stage of the rest.
// Chapter 06.
#include "parallel/engine/partition.h"

#include <algorithm>
#include <limits>

namespace plangrad::parallel {

std::vector<int> partition(const std::vector<double>& costs, int stages, const StageFits& fits) {
  const int layers = static_cast<int>(costs.size());
  std::vector<double> before(layers + 1, 0);
  for (int i = 0; i < layers; ++i) before[i + 1] = before[i] + costs[i];

  // best[s][n]: the largest part when the first n layers make s stages; from[s][n]: its last cut.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, never));
  std::vector<std::vector<int>> from(stages + 1, std::vector<int>(layers + 1, 0));
  best[0][0] = 0;
  // [snippet partition]
  for (int s = 1; s <= stages; ++s)
    for (int n = s; n <= layers; ++n)
      for (int cut = s - 1; cut < n; ++cut) {
        const double largest = std::max(best[s - 1][cut], before[n] - before[cut]);
        if (largest < best[s][n] && (!fits || fits(s - 1, cut, n))) {
          best[s][n] = largest;
          from[s][n] = cut;
        }
      }
  // [end snippet]

  if (best[stages][layers] == never) return {};
  std::vector<int> cuts(stages + 1);
  cuts[stages] = layers;
  for (int s = stages; s > 0; --s) cuts[s - 1] = from[s][cuts[s]];
  return cuts;
}

}  // namespace plangrad::parallel
