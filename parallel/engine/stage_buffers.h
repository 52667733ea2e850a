// StageBuffers: what a rank needs of a stage to compute with it: whole versions of its weights, and
// gradient sums of the steps that are under way.
// Not here: versions of its own and the optimizer, which a rank that keeps the stage has, too
// (weight_store.h). Chapters 07 and 11.
#pragma once

#include <map>

#include "parallel/engine/shards.h"
#include "parallel/engine/training.h"

namespace paragrad::parallel {

/// Elements are those that the stage's form stores. Where forward can't read them so (SAMO), the
/// rank also has one buffer with all elements of the version that it computes with just now.
class StageBuffers {
 public:
  StageBuffers(const Training& training, StateFormPtr form, const DevicePtr& device);
  virtual ~StageBuffers() = default;

  const StateForm& form() const { return *form_; }
  /// The parameters as they are stored.
  const ParameterList& parameters() const { return form_->stored(); }

  /// The whole of a version, as it is stored.
  /// throws: Error if it is not here
  const Tensor& weights(int version) const;
  /// The whole of a version as forward and backward read it. Where it must be expanded, all
  /// versions share one tensor, so that a backward calls this before it runs, too: other versions
  /// may have been here since its forward.
  const Tensor& dense(int version);

  /// Memory for the whole of a version that a message brings. If the version was here before, it is
  /// the same tensor: graphs that lie between forward and backward still point to it.
  Tensor bring(int version);
  /// Frees the memory of what was brought. Nobody reads it until it is brought again.
  void drop(int version);
  /// Frees a version.
  virtual void release(int version);

  /// Adds to the gradient sum of the step that makes `version`.
  void add(int version, const Parameter& parameter, const Tensor& dx);
  /// The sum so far, flat; zero if nothing was added.
  Tensor sum(int version);
  bool has_sum(int version) const { return sums_.contains(version); }
  /// Memory for a sum; what it holds is undefined.
  Tensor new_sum() const;
  /// The sum so far, which is gone from here.
  Tensor take_sum(int version);
  void put_sum(int version, const Tensor& sum) { sums_[version] = sum; }

 protected:
  Tensor flat(Category category, DType dtype, std::int64_t count) const;
  void forget_expanded() { expanded_ = -1; }

  StateFormPtr form_;
  DType dtype_;  // of weights
  DevicePtr device_;
  std::map<int, Tensor> whole_, sums_;  // by version
  Tensor dense_;                        // where the form is not

 private:
  int expanded_ = -1;  // the version that is in dense_
};

}  // namespace paragrad::parallel
