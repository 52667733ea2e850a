// WeightStore: the state of a stage on a rank that keeps it: versions of its weights, gradient sums
// of the steps that are under way, the optimizer; or a shard of some or all (ZeRO). StageBuffers:
// what a rank has of a stage that another one keeps. Not here: when versions are made and die; the
// plan says. Chapters 07, 09 and 11; Rajbhandari et al. 2020 (ZeRO).
#pragma once

#include <algorithm>
#include <map>

#include "parallel/collectives/collective.h"
#include "parallel/engine/training.h"
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {

// [snippet shard]
/// A rank's place among those that share a stage's state. The flat buffer is cut into as many
/// shards as there are members, as a collective cuts it into chunks, whatever the parameters'
/// borders: any number of elements can be cut, and sizes differ by one at most.
struct Shard {
  int zero = 0;  ///< what is sharded: Plan::sharded
  int member = 0, members = 1;

  /// Elements of this member's shard of a buffer of `count`; all of them where nothing is sharded.
  Range range(std::int64_t count) const { return chunk_range(count, member, members); }

  /// This member's shard of a whole buffer.
  autograd::Tensor window(const autograd::Tensor& whole) const {
    const Range own = range(whole.numel());
    return whole.window(own.begin, {own.size()});
  }

  friend bool operator==(const Shard&, const Shard&) = default;
};
// [end snippet]

/// A rank's shard of a stage. Members are counted in the order of ranks.
/// throws: Error if the rank does not hold the stage
inline Shard shard_of(const Plan& plan, int stage, int rank) {
  if (plan.sharded == 0) return {};
  const std::vector<int> ranks = holders(plan).at(stage);
  auto found = std::find(ranks.begin(), ranks.end(), rank);
  PG_CHECK(found != ranks.end(), "rank ", rank, " has no shard of stage ", stage);
  return {plan.sharded, static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size())};
}

/// What a rank needs of a stage to compute with it: whole versions of its weights, and gradient
/// sums of the steps that are under way. Elements are those that the stage's form stores. Where
/// forward can't read them so (SAMO), the rank also has one buffer with all elements of the version
/// that it computes with just now.
class StageBuffers {
 public:
  StageBuffers(const Training& training, StateFormPtr form, const DevicePtr& device)
      : form_(std::move(form)), dtype_(training.dtype), device_(device) {}
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
  void add(int version, const Parameter& parameter, const Tensor& dx) {
    form_->add(parameter, dx, sum(version));
  }
  /// The sum so far, flat; zero if nothing was added.
  Tensor sum(int version);
  bool has_sum(int version) const { return sums_.contains(version); }
  /// Memory for a sum; what it holds is undefined.
  Tensor new_sum() const {
    return flat(Category::gradients, gradient_dtype(dtype_), parameters().numel());
  }
  /// The sum so far, which is gone from here.
  Tensor take_sum(int version);
  void put_sum(int version, const Tensor& sum) { sums_[version] = sum; }

 protected:
  Tensor flat(Category category, DType dtype, std::int64_t count) const;
  Tensor copied(const Tensor& x, Category category) const;
  void forget_expanded() { expanded_ = -1; }

  StateFormPtr form_;
  DType dtype_;  // of weights
  DevicePtr device_;
  std::map<int, Tensor> whole_, sums_;  // by version
  Tensor dense_;                        // where the form is not

 private:
  int expanded_ = -1;  // the version that is in dense_
};

// [snippet kept]
/// The state of a stage on a rank that keeps it: versions, sums, the optimizer. What stays between
/// uses, of a stage of N elements and a shard of n:
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
