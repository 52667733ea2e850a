// WeightStore: the state of a stage on a rank that keeps it: versions of its weights, gradient sums
// of the steps that are under way, the optimizer. Where a plan shards them (ZeRO), a shard of some
// or all. Not here: when versions are made and die; the plan says. Chapters 07, 09 and 11.
#pragma once

#include "parallel/engine/stage_buffers.h"

namespace paragrad::parallel {

// [snippet kept]
/// What stays on the rank between uses, of a stage of N elements and a shard of n:
///                   zero 0   1    2    3
///   version           N      N    N    n    and N while it is gathered
///   gradient sum      N      N    n    n    and N from the first backward to the drop
///   optimizer state   N      n    n    n
// [end snippet]
class WeightStore : public StageBuffers {
 public:
  /// Begins with the model's first values as version `version`.
  WeightStore(const Training& training, StateFormPtr form, int version, const DevicePtr& device,
              const Shard& shard = {});

  const Shard& shard() const { return shard_; }
  /// The parameters of the shard, and where each stands in Training::whole.
  const ParameterList& own_parameters() const { return own_parameters_; }
  const std::vector<std::size_t>& own_places() const { return own_places_; }
  /// Acts on the shard.
  Optimizer& optimizer() { return *optimizer_; }

  int newest() const { return versions().rbegin()->first; }
  /// By version, oldest first; flat buffers. With ZeRO 3: shards.
  const std::map<int, Tensor>& versions() const { return shard_.zero == 3 ? shards_ : whole_; }

  /// Makes sure of versions oldest, ..., newest: an older one that is missing begins as a copy of
  /// the oldest there is. Those older than that are freed.
  void keep_from(int oldest);

  /// The shard of a sum.
  Tensor own_sum(int version) { return own(sum(version)); }
  /// Frees all of a sum but the shard.
  void cut_sum(int version);
  /// Memory for the whole of a version that is gathered, with the shard in its place.
  Tensor bring_shard(int version);

  /// Makes version newest + 1 from the newest and its sum, which ends. Without `keep_old` it takes
  /// the newest one's place in memory. Only the shard of it is new.
  void step(const StepSettings& settings, bool keep_old);
  void release(int version) override;

  /// Keeps a copy of the newest version, as it is stored, to come back to.
  void remember();
  /// Undefined if nothing was remembered.
  const Tensor& remembered() const { return remembered_; }
  /// All versions take the remembered values; the optimizer begins anew, and counts its steps from
  /// the newest version on.
  void rewind(const Training& training);
  /// The version that the optimizer counts its steps from.
  int begun() const { return begun_; }
  void count_steps_from(int version) { begun_ = version; }

  /// Puts a buffer of so many elements together from the shards of all who have one.
  using Whole = std::function<Tensor(const Tensor& shard, std::int64_t count)>;
  /// Stores everything in another form, between plans. Elements that it does not keep are lost.
  void change_form(const Training& training, StateFormPtr form, const Whole& whole);

 private:
  std::map<int, Tensor>& own_versions() { return shard_.zero == 3 ? shards_ : whole_; }
  /// The shard of a buffer that is whole, or is the shard already.
  Tensor own(const Tensor& x) const;
  void find_shard(const Training& training);

  Shard shard_;
  Range range_;  // of the shard
  ParameterList own_parameters_;
  std::vector<std::size_t> own_places_;
  std::map<int, Tensor> shards_;  // versions, with ZeRO 3
  Tensor remembered_;
  int begun_ = 0;  // the version that the optimizer's first step began with
  std::unique_ptr<Optimizer> optimizer_;
};

}  // namespace paragrad::parallel
