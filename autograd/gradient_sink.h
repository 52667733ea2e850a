// Sink: where gradients go as soon as backward has made them: a function that adds each to a sum.
// Not here: the sums (parallel/engine/weight_store.h), and backward (autograd/graph.h).
// Chapters 01 and 12.
#pragma once

#include <functional>

#include "autograd/tensor.h"

namespace plangrad::autograd {

/// Tells a kernel where it may add a gradient itself.
struct SumPlace {
  Tensor sum;          ///< has the gradient's shape; undefined if there is no such place
  bool begun = false;  ///< whether to add to it; else it is undefined, and to be written
};

/// Receives each contribution to a gradient; Key says whose gradient, where one sink serves many.
/// For a weight that is used twice, it is called twice, and must add the contributions.
///
/// A sink may also tell the place of its sum, so that a product that makes a contribution adds to
/// the sum itself, instead of storing a tensor that is then read and added.
template <class... Key>
class Sink {
 public:
  using Add = std::function<void(Key..., const Tensor& dx)>;
  using Place = std::function<SumPlace(Key...)>;

  Sink() = default;
  Sink(std::nullptr_t) {}
  template <class F>
  requires std::is_invocable_v<F, Key..., const Tensor&> Sink(F add, Place place = nullptr)
      : add_(std::move(add)), place_(std::move(place)) {}

  explicit operator bool() const { return add_ != nullptr; }
  void operator()(Key... key, const Tensor& dx) const { add_(key..., dx); }

  /// The place of the sum: a contribution that a kernel adds there is as good as one that is given
  /// to the sink. The caller must make one.
  SumPlace place(Key... key) const { return place_ ? place_(key...) : SumPlace(); }

 private:
  Add add_;
  Place place_;
};

using GradientSink = Sink<>;

}  // namespace plangrad::autograd
