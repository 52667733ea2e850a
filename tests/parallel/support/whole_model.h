// A whole model in one stage, no plan and no messages: what update rules are written out with, for
// plans to be compared with. The cyclic rules themselves are here; others are where they
// are tested.
#pragma once

#include "tests/parallel/support/small_run.h"

namespace plangrad::tests {

class WholeModel {
 public:
  /// All of these must outlive it.
  WholeModel(const Training& training, const Layout& layout, Batches& batches);

  Tensor first() const;

  /// The gradient of the mean loss over a step's microbatches, times their number: added up by
  /// microbatch in each replica, then by replica. The step's microbatch i reads weights(i).
  Tensor gradient(const std::function<Tensor(int i)>& weights, int step);
  Tensor gradient(const Tensor& weights, int step);

  /// weights - rate * optimizer's direction
  Tensor update(const Tensor& weights, const Tensor& gradient, int version);

  /// Each parameter from the weights that its stage reads; the tied one from what stage 0 reads.
  Tensor mixed(const std::function<Tensor(int stage)>& read);

  /// The part of these weights in the flat buffer of a stage, or in the tied one.
  std::vector<double> part(const Tensor& weights, int stage);

  std::map<int, double> norms;  ///< by version

 private:
  Tensor buffer() const;
  std::int64_t place(const Parameter& wanted) const;

  const Training& training_;
  Layout layout_;
  Batches& batches_;
  DevicePtr device_;
  Stage stage_;
  std::unique_ptr<Optimizer> optimizer_;
};

/// Weights after layout.steps steps of cyclic data parallelism, for N = layout.stages, which is
/// also the number of a step's microbatches: layout.width * layout.microbatches.
Tensor cyclic_v1(WholeModel& model, const Layout& layout);
Tensor cyclic_v2(WholeModel& model, const Layout& layout);

}  // namespace plangrad::tests
