// WeightStore: the state of one stage on one rank: versions of its weights, gradient sums of the
// steps that are under way, the optimizer. Where a plan shards them (ZeRO), a shard of some or all.
// Not here: when versions are made and die; the plan says. Chapters 07, 09 and 11.
#pragma once

#include <map>

#include "parallel/engine/shards.h"
#include "parallel/engine/training.h"

namespace paragrad::parallel {

// [snippet kept]
/// What stays on the rank between uses, of a stage of N elements and a shard of n:
///                   zero 0   1    2    3
///   version           N      N    N    n    and N while it is gathered
///   gradient sum      N      N    n    n    and N from the first backward to the drop
///   optimizer state   N      n    n    n
// [end snippet]
/// Elements are those that the stage's form stores. Where forward can't read them so (SAMO), the
/// rank also has one buffer with all elements of the version that it computes with just now.
class WeightStore {
 public:
  /// Begins with the model's first values as version `version`.
  WeightStore(const Training& training, StateFormPtr form, int version, const DevicePtr& device,
              const Shard& shard = {});
  /// For a rank that computes with the stage, but is not its home: without versions of its own and
  /// without optimizer.
  WeightStore(const Training& training, StateFormPtr form, const DevicePtr& device,
              const Shard& shard = {});

  const StateForm& form() const { return *form_; }
  /// As they are stored.
  const ParameterList& parameters() const { return form_->stored(); }
  const Shard& shard() const { return shard_; }
  /// The parameters of the shard, and where each stands in Training::whole.
  const ParameterList& own_parameters() const { return own_parameters_; }
  const std::vector<std::size_t>& own_places() const { return own_places_; }
  /// Acts on the shard.
  Optimizer& optimizer() { return *optimizer_; }

  int newest() const { return versions_.rbegin()->first; }
  /// By version, oldest first; flat buffers. With ZeRO 3: shards.
  const std::map<int, Tensor>& versions() const { return versions_; }
  /// The whole of a version, as it is stored.
  /// throws: Error if it is not here
  const Tensor& weights(int version) const;
  /// The same as forward and backward read it. Where it must be expanded, all versions share one
  /// tensor, so that a backward calls this before it runs, too: other versions may have been here
  /// since its forward.
  const Tensor& dense(int version);

  /// Makes sure of versions oldest, ..., newest: an older one that is missing begins as a copy of
  /// the oldest there is. Those older than that are freed.
  void keep_from(int oldest);

  /// Adds to the gradient sum of the step that makes `version`.
  void add(int version, const Parameter& parameter, const Tensor& dx);
  /// The sum so far, flat; zero if nothing was added.
  Tensor sum(int version);
  bool has_sum(int version) const { return sums_.contains(version); }
  /// The shard of a sum.
  Tensor own_sum(int version);
  /// Frees all of a sum but the shard.
  void cut_sum(int version);
  /// Memory for a sum; what it holds is undefined.
  Tensor new_sum() const;
  /// The sum so far, which is gone from here.
  Tensor take_sum(int version);
  void put_sum(int version, const Tensor& sum) { sums_[version] = sum; }

  /// Memory for the whole of a version that a message brings. If the version was here before, it is
  /// the same tensor: graphs that lie between forward and backward still point to it.
  Tensor bring(int version);
  /// The same for a gather, with the shard in its place.
  Tensor bring_shard(int version);
  /// Frees the memory of what was brought. Nobody reads it until it is brought again.
  void drop(int version);

  /// Makes version newest + 1 from the newest and its sum, which ends. Without `keep_old` it takes
  /// the newest one's place in memory. Only the shard of it is new.
  void step(const StepSettings& settings, bool keep_old);
  void release(int version);

  /// Keeps a copy of the newest version, as it is stored, to come back to.
  void remember();
  /// Undefined if nothing was remembered.
  const Tensor& remembered() const { return remembered_; }
  /// All versions take the remembered values; the optimizer begins anew, and counts its steps from
  /// the newest version on.
  void rewind(const Training& training);
  /// The version that it counts from; and the same for a run that is resumed.
  int begun() const { return begun_; }
  void count_steps_from(int version) { begun_ = version; }

  /// Puts a buffer of so many elements together from the shards of all who have one.
  using Whole = std::function<Tensor(const Tensor& shard, std::int64_t count)>;
  /// Stores everything in another form, between plans. Elements that it does not keep are lost.
  void change_form(const Training& training, StateFormPtr form, const Whole& whole);

 private:
  Tensor flat(Category category, DType dtype, std::int64_t count) const;
  /// Whole versions.
  std::map<int, Tensor>& whole() { return shard_.zero == 3 ? gathered_ : versions_; }
  const std::map<int, Tensor>& whole() const { return shard_.zero == 3 ? gathered_ : versions_; }
  /// The shard of a buffer that is whole, or is the shard already.
  Tensor own(const Tensor& x) const;
  void find_shard(const Training& training);
  void drop_expanded(int version);

  StateFormPtr form_;
  Shard shard_;
  Range range_;  // of the shard
  ParameterList own_parameters_;
  std::vector<std::size_t> own_places_;
  DType dtype_;  // of weights
  DevicePtr device_;
  std::map<int, Tensor> versions_, sums_;
  std::map<int, Tensor> gathered_;  // by version, with ZeRO 3
  Tensor dense_;                    // where the form is not
  int expanded_ = -1;               // the version that is in it
  Tensor remembered_;
  int begun_ = 0;  // the version that the optimizer's first step began with
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace paragrad::parallel
