// Cuts a model evenly: the smallest largest part, by dynamic programming over cut positions.
// Not here: the planner, which weighs memory and messages, too.
// Chapter 06.
#include "parallel/engine/training.h"

#include <algorithm>
#include <limits>

namespace plangrad::parallel {

/// Cuts a model so that the most expensive stage costs least, by the layers' flops.
/// shapes: stages + 1 ascending numbers of layers, from 0 on
static std::vector<int> balanced_cuts(const Model& model, int stages) {
  int layers = static_cast<int>(model.size());
  PG_CHECK(stages > 0 && stages <= layers, "a model of ", layers, " layers can't be cut into ",
           stages, " stages; use a --stages of at most ", layers);
  // A layer whose arithmetic is unknown or none (an embedding) still counts a little, so that ties
  // between cuts are settled in one way.
  std::vector<double> before(layers + 1, 0);
  for (int i = 0; i < layers; ++i) before[i + 1] = before[i] + model[i].flops + 1;

  // best[s][n]: the largest part when the first n layers make s stages; from[s][n]: its last cut.
  constexpr double never = std::numeric_limits<double>::infinity();
  std::vector<std::vector<double>> best(stages + 1, std::vector<double>(layers + 1, never));
  std::vector<std::vector<int>> from(stages + 1, std::vector<int>(layers + 1, 0));
  best[0][0] = 0;
  for (int s = 1; s <= stages; ++s)
    for (int n = s; n <= layers; ++n)
      for (int cut = s - 1; cut < n; ++cut) {
        double largest = std::max(best[s - 1][cut], before[n] - before[cut]);
        if (largest < best[s][n]) {
          best[s][n] = largest;
          from[s][n] = cut;
        }
      }

  std::vector<int> cuts(stages + 1);
  cuts[stages] = layers;
  for (int s = stages; s > 0; --s) cuts[s - 1] = from[s][cuts[s]];
  return cuts;
}

Training::Training(const Model& model, int stages)
    : model(model),
      cuts(balanced_cuts(model, stages)),
      shared(shared_parameters(model, cuts)),
      whole(whole_parameters(model)),
      optimizer([](const ParameterList& parameters, const Tensor& weights) {
        return make_adamw(parameters, weights);
      }) {}

void Training::fill(const ParameterList& parameters, const Tensor& weights) const {
  if (first_weights)
    first_weights(parameters, weights);
  else
    initialize(parameters, weights, seed);
}

}  // namespace plangrad::parallel
