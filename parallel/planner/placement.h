// Placement: the operators of a graph on devices, one behind the other, so that the device with the
// most to do for one input has little.
// Not here: layers of a model on stages (engine/training.h), the latency of one input.
// Chapter 16; Tarnawski et al. 2020, "Efficient Algorithms for Device Placement of DNN Graph
// Operators", section 5.1.
#pragma once

#include <string>
#include <vector>

namespace plangrad::parallel {

struct GraphOperator {
  std::string name;
  double seconds = 0, bytes = 0;  ///< of computing its output; of the output
  std::vector<int> inputs = {};   ///< operators that stand before it in the graph
};
using OperatorGraph = std::vector<GraphOperator>;

struct OperatorPlacement {
  std::vector<int> device;    ///< by operator
  std::vector<double> loads;  ///< seconds, by device; 0: it has no operator
  double most = 0;            ///< the largest load
  std::size_t sets = 0;       ///< down-closed sets of the graph
};

/// What can be placed: operators, and down-closed sets of them, as all pairs of sets are looked at.
constexpr std::size_t most_operators = 512, most_down_closed_sets = 20'000;

/// Places operators so that the largest load is the least of placements whose outputs go to later
/// devices only, so that inputs pass the devices one behind the other. A load is the seconds of a
/// device's operators, and of the outputs that come to it and that leave it, each counted once.
///   bandwidth: bytes per second into a device, and out of it
/// throws: Error if the graph is larger than what can be placed, or there are more devices than
///         operators can be. A set of operators is down-closed if it has all that they need
OperatorPlacement place(const OperatorGraph& graph, int devices, double bandwidth);

}  // namespace plangrad::parallel
