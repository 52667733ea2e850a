// WeightPart: the second part of a split backward, the gradients of weights. The first part is a
// sweep that makes all other gradients (autograd/graph.h: backward).
// Not here: when each part runs, which a plan says as I and W (parallel/plan/operations.h).
// Chapter 06; Qi et al. 2024, "Zero bubble pipeline parallelism".
#pragma once

#include <deque>

#include "autograd/graph.h"

namespace plangrad::autograd {

/// The gradients of weights, which are leaves with a sink, that a sweep has put off. No other
/// gradient depends on them, so they can wait: what their operations kept, and the gradients of
/// the results, wait with them as activations.
class WeightPart {
 public:
  /// Computes the gradients of a node's inputs that are no weights, and puts off those of weights.
  /// A kernel that makes both, as a norm's does, runs now, and the gradients of its weights wait.
  /// shapes: dy as the node's result -> as backward functions return them
  std::vector<Tensor> put_off(Node& node, const Tensor& dy, Sweep& sweep);

  /// Hands all gradients that were put off to their sinks, in the order of an undivided sweep.
  /// Frees what waited for a gradient before it computes the next one.
  void run();

 private:
  struct LaterNode {
    BackwardFunction backward;
    Tensor dy;
    std::vector<std::shared_ptr<Node>> inputs;  // null where an input is no weight
  };

  void keep_for_later(LaterNode rest, Node& node, std::vector<Tensor> gradients);

  std::deque<LaterNode> kept_;
  DevicePtr device_;  // null as long as nothing was put off
};

}  // namespace plangrad::autograd
