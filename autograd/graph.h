// The graph of a computation and its reverse sweep: record() while computing, backward() after.
// Not here: formulas. Each operation in autograd/ops hands its own to record().
// Chapter 01.
#pragma once

#include <functional>
#include <vector>

#include "autograd/tensor.h"

namespace paragrad::autograd {

/// From the gradient of a result to the gradients of the inputs, in their order; an undefined
/// tensor where an input needs none.
using BackwardFunction = std::function<std::vector<Tensor>(const Tensor& dy)>;

/// Takes each contribution to a leaf's gradient the moment backward has produced it. A leaf that
/// is used twice is called twice; the contributions are to be added up.
using GradientSink = std::function<void(const Tensor& dx)>;

/// One recorded operation, or a leaf. Tensors hold nodes, nodes hold the nodes of their inputs.
struct Node {
  const char* name = "leaf";
  std::uint64_t sequence = 0;                 ///< when it was made, on its device
  std::vector<std::shared_ptr<Node>> inputs;  ///< null where an input needs no gradient
  BackwardFunction backward;
  GradientSink sink;  ///< of a leaf
  Tensor gradient;    ///< of a leaf without a sink: the sum so far
};

/// A leaf on the values of x. Its gradient is summed up in the leaf; read it with gradient().
Tensor variable(const Tensor& x);
/// A leaf whose gradient goes to `sink`.
Tensor variable(const Tensor& x, GradientSink sink);
/// The gradient that backward left in a leaf made by variable(x).
/// throws: Error if x is not such a leaf or nothing has reached it
const Tensor& gradient(const Tensor& x);

/// Ties y to the inputs that it was computed from, if one of them needs a gradient and its device
/// records. What the function captures lives until backward has passed. It must not capture y
/// itself, which would hold on to its own node: capture y.detach().
Tensor record(const Tensor& y, const char* name, const std::vector<Tensor>& inputs,
              BackwardFunction backward);
/// Ties y to the one input that it was computed from.
Tensor record(const Tensor& y, const char* name, const Tensor& x,
              std::function<Tensor(const Tensor& dy)> backward);

/// Sends dy, the gradient of something with respect to y, back through the graph of y, freeing
/// the graph on the way. Values that the graph keeps, weights among them, must not have changed.
/// shapes: dy as y; may be left out where y has one element (then it is 1)
/// throws: Error if y has no graph or its graph has been used
/// source: Griewank and Walther 2008, section 3.2 (reverse mode);  tutorial 01
void backward(const Tensor& y, const Tensor& dy = {});

/// y = f(x), without keeping what is computed on the way: backward computes it again.
/// Random numbers are functions of their keys, so f computes the same twice. Beside x, f may read
/// leaves, whose gradients go to their sinks, but no other part of a graph.
/// source: Chen et al. 2016, "Training deep nets with sublinear memory cost"
Tensor recompute(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);

}  // namespace paragrad::autograd
