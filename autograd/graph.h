// The graph of a computation and its reverse sweep: record() while computing, backward() after.
// Not here: formulas. Each operation in autograd/ops hands its own to record(). Chapter 01.
#pragma once

#include "autograd/gradient_sink.h"

namespace plangrad::autograd {

class WeightPart;
struct Sweep;

/// Which inputs' gradients a backward function is asked for: those of inputs that are not null.
class Wanted {
 public:
  explicit Wanted(const std::vector<std::shared_ptr<Node>>& inputs, Sweep* sweep = nullptr,
                  WeightPart* later = nullptr)
      : later(later), inputs_(inputs), sweep_(sweep) {}
  bool operator[](std::size_t input) const { return inputs_[input] != nullptr; }
  /// Takes the sum of the gradients that the input has received so far; undefined if there are
  /// none. A function that takes it returns that sum plus its own gradient, made in one pass.
  Tensor take_sum(std::size_t input) const;
  /// The place to add a wanted gradient to, instead of returning it, if there is one.
  SumPlace place(std::size_t input) const;

  WeightPart* const later;  ///< the weight part that backward fills; null in a whole backward

 private:
  const std::vector<std::shared_ptr<Node>>& inputs_;
  Sweep* const sweep_;
};

/// Computes the gradients of the inputs, in their order, from the gradient of the result; undefined
/// tensors for inputs whose gradients are not wanted.
using BackwardFunction = std::function<std::vector<Tensor>(const Tensor& dy, const Wanted& wanted)>;

/// One recorded operation, or a leaf. Tensors hold nodes, nodes hold the nodes of their inputs.
struct Node {
  const char* name = "leaf";
  std::uint64_t sequence = 0;                 ///< when it was made, on its device
  std::vector<std::shared_ptr<Node>> inputs;  ///< null where an input needs no gradient
  BackwardFunction backward;
  bool is_leaf = false;
  GradientSink sink;  ///< only a leaf has one
  Tensor gradient;    ///< the sum so far, in a leaf without a sink
};

inline SumPlace Wanted::place(std::size_t input) const { return inputs_[input]->sink.place(); }

/// Makes a leaf on the values of x that hands its gradient to `sink`, as weights do. Without one,
/// the leaf sums its gradient; read it with gradient().
Tensor variable(const Tensor& x, GradientSink sink = nullptr);
/// The gradient that backward left in a leaf made by variable(x).
/// throws: Error if x is not such a leaf, or no gradient has reached it
const Tensor& gradient(const Tensor& x);

/// Ties y to the inputs that it was computed from, if one of them needs a gradient and its device
/// records. Values that the function captures live until backward has used them. It must not
/// capture y itself, which would keep its own node alive: capture y.detach().
Tensor record(const Tensor& y, const char* name, const std::vector<Tensor>& inputs,
              BackwardFunction backward);
/// Ties y to its inputs by a function that computes the gradients of all of them.
Tensor record(const Tensor& y, const char* name, const std::vector<Tensor>& inputs,
              std::function<std::vector<Tensor>(const Tensor& dy)> backward);
/// Ties y to the one input that it was computed from.
Tensor record(const Tensor& y, const char* name, const Tensor& x,
              std::function<Tensor(const Tensor& dy)> backward);

/// Sends dy, the gradient of a loss with respect to y, back through the graph of y, and frees the
/// graph while doing so. The graph keeps tensors, not copies: of weights that were changed in place
/// since, backward reads the values that are there now. Other values must not have changed.
/// With a weight part, `later`, the gradients of weights (leaves with a sink) wait for its run().
/// shapes: dy as y; it may be left out if y has one element, and is then 1
/// throws: Error if y has no graph or its graph has been used
/// source: Griewank and Walther 2008, section 3.2 (reverse mode);  tutorial 01
void backward(const Tensor& y, const Tensor& dy = {}, WeightPart* later = nullptr);

/// y = f(x), without keeping intermediate values: backward computes them again. Random numbers are
/// functions of their keys, so f computes the same values twice. Beside x, f may read leaves, whose
/// gradients go to their sinks, but no other part of a graph.
/// source: Chen et al. 2016, "Training deep nets with sublinear memory cost"
Tensor recompute(const std::function<Tensor(const Tensor&)>& f, const Tensor& x);

}  // namespace plangrad::autograd
