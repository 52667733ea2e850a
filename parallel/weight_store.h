// WeightStore: the state of one stage on one rank: versions of its weights, gradient sums of the
// steps that are under way, the optimizer.
// Not here: when versions are made and die; the plan says. Chapter 07.
#pragma once

#include <map>

#include "parallel/training.h"

namespace paragrad::parallel {

class WeightStore {
 public:
  /// Begins with the model's first values as version `version`.
  WeightStore(const Training& training, const ParameterList& parameters, int version,
              const DevicePtr& device);

  const ParameterList& parameters() const { return parameters_; }
  /// Where each parameter stands in Training::whole.
  const std::vector<std::size_t>& places() const { return places_; }
  Optimizer& optimizer() { return *optimizer_; }

  int newest() const { return versions_.rbegin()->first; }
  /// By version, oldest first; flat buffers.
  const std::map<int, Tensor>& versions() const { return versions_; }
  /// throws: Error if there is none
  const Tensor& weights(int version) const;

  /// Makes sure of versions oldest, ..., newest: an older one that is missing begins as a copy of
  /// the oldest there is. Those older than that are freed.
  void keep_from(int oldest);
  /// Calls the newest version `version`, when its values were loaded from a checkpoint.
  void renumber(int version);

  /// Adds to the gradient sum of the step that makes `version`.
  void add(int version, const Parameter& parameter, const Tensor& dx);
  /// The sum so far, flat; zero if nothing was added.
  Tensor sum(int version);

  /// Makes version newest + 1 from the newest and its sum, which ends. Without `keep_old` it takes
  /// the newest one's place in memory.
  void step(const StepSettings& settings, bool keep_old);
  void release(int version) { versions_.erase(version); }

 private:
  Tensor flat(Category category, DType dtype) const;

  const ParameterList& parameters_;
  std::vector<std::size_t> places_;
  DevicePtr device_;
  std::map<int, Tensor> versions_, sums_;
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace paragrad::parallel
