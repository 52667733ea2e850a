// WeightStore: the state of a stage on a rank that keeps it: versions of its weights, gradient sums
// of unfinished updates, the optimizer; or a shard of some or all (ZeRO). StageBuffers: a rank's
// buffers of a stage that another rank keeps. GradientSum: the sum of one update.
// Not here: when versions are made and freed, which the plan says; and sums over ranks
// (sum_book.h). Chapters 05, 07, 09, 11 and 12; Rajbhandari et al. 2020 (ZeRO).
#pragma once

#include "parallel/collectives/collective.h"
#include "parallel/engine/training.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

/// A flat sum. Each parameter's part is undefined until its first gradient is written there; later
/// ones are added. This saves a pass that writes zeros, and one that reads them.
class GradientSum {
 public:
  /// A sum of which all parts have begun.
  explicit GradientSum(const autograd::Tensor& flat) : flat_(flat) {}
  /// A sum of which none has begun. The parameters must outlive it.
  GradientSum(const autograd::Tensor& flat, const nn::ParameterList& parameters)
      : flat_(flat), parameters_(&parameters) {}

  const autograd::Tensor& flat() const { return flat_; }
  /// Whether the parameter's part has begun already. If not, it begins now: the caller writes it.
  bool begun(const nn::Parameter& parameter) {
    return !parameters_ || !begun_.insert(parameter.name).second;
  }
  /// The sum so far, with zeros in parts without a gradient.
  const autograd::Tensor& whole() {
    if (!parameters_) return flat_;
    for (const nn::Parameter& p : *parameters_)
      if (!begun(p)) flat_.backend().fill(0, flat_.window(p.offset, p.shape));
    parameters_ = nullptr;
    return flat_;
  }

 private:
  autograd::Tensor flat_;
  const nn::ParameterList* parameters_ = nullptr;  // null once all parts have begun
  std::set<std::string> begun_;                    // names of parameters
};

// [snippet shard]
/// A rank's place among the ranks that share a stage's state. The flat buffer is cut into one shard
/// per member, as a collective cuts it into chunks, whatever the parameters' borders: any number of
/// elements can be cut, and sizes differ by one at most.
struct Shard {
  int zero = 0;  ///< the ZeRO level, as in Plan::sharded
  int member = 0, members = 1;

  /// Elements of this member's shard of a buffer of `count`; all of them if nothing is sharded.
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

/// A rank's buffers to compute a stage: whole versions of its weights, and gradient sums of
/// unfinished updates, in the elements that the stage's form stores. If forward can't read these,
/// the rank also has one buffer with all elements of the version that it computes with now.
class StageBuffers {
 public:
  StageBuffers(const Training& training, StateFormPtr form, const DevicePtr& device)
      : form_(std::move(form)), dtype_(training.dtype), device_(device) {}
  virtual ~StageBuffers() = default;

  const StateForm& form() const { return *form_; }
  /// The parameters as they are stored.
  const ParameterList& parameters() const { return form_->stored(); }

  /// A whole version, as it is stored.
  /// throws: Error if it is not here
  const Tensor& weights(int version) const;
  /// A whole version as forward and backward read it. Expanded versions share one tensor, which may
  /// have held another one since the forward, so a backward calls this before it runs, too.
  const Tensor& dense(int version);

  /// Memory for a whole version that a message brings. A version that was here before gets the same
  /// tensor: graphs between forward and backward still point to it.
  Tensor bring(int version);
  /// Frees the memory of a version that was brought. Nothing reads it until it is brought again.
  void drop(int version);
  virtual void release(int version);

  /// Adds to the gradient sum of the update that makes `version`.
  void add(int version, const Parameter& parameter, const Tensor& dx) {
    GradientSum& sum = begun_sum(version);
    sum.begun(parameter) ? form_->add(parameter, dx, sum.flat())
                         : form_->compress(parameter, dx, sum.flat());
  }
  /// Tells a kernel where it may add a gradient of the parameter; undefined if only add() can.
  SumPlace place(int version, const Parameter& parameter) {
    if (!device_->backend().adds_whole_sums() || form_->has_index()) return {};
    GradientSum& sum = begun_sum(version);
    return {sum.flat().window(parameter.offset, parameter.shape), sum.begun(parameter)};
  }
  /// The sum so far, flat; zero if nothing was added.
  Tensor sum(int version) { return begun_sum(version).whole(); }
  bool has_sum(int version) const { return sums_.contains(version); }
  /// Memory for a sum; what it holds is undefined.
  Tensor new_sum() const {
    return flat(Category::gradients, gradient_dtype(dtype_), parameters().numel());
  }
  /// Removes and returns the sum so far.
  /// throws: Error if nothing was added
  Tensor take_sum(int version);
  void put_sum(int version, const Tensor& sum) {
    sums_.insert_or_assign(version, GradientSum(sum));
  }

 protected:
  Tensor flat(Category category, DType dtype, std::int64_t count) const;
  Tensor copied(const Tensor& x, Category category) const;
  void forget_expanded() { expanded_ = -1; }
  GradientSum& begun_sum(int version);
  friend struct TableSizes;  // of tests

  StateFormPtr form_;
  DType dtype_;  // of weights
  DevicePtr device_;
  std::map<int, Tensor> whole_;      // by version
  std::map<int, GradientSum> sums_;  // by version
  Tensor dense_;                     // the expanded version, if the form expands

 private:
  int expanded_ = -1;  // the version that is in dense_
};

// [snippet kept]
/// The state of a stage on a rank that keeps it: versions, sums, the optimizer. The elements that
/// stay between uses, for a stage of N elements and a shard of n:
///                   zero 0   1    2    3
///   version           N      N    N    n    and N while it is gathered
///   gradient sum      N      N    n    n    and N from the first backward to the drop
///   optimizer state   N      n    n    n
// [end snippet]
class WeightStore : public StageBuffers {
 public:
  /// Begins with the model's initial values as version `version`.
  WeightStore(const Training& training, StateFormPtr form, int version, const DevicePtr& device,
              const Shard& shard = {});

  const Shard& shard() const { return shard_; }
  /// The parameters of the shard, and the index of each in Training::whole.
  const ParameterList& own_parameters() const { return own_parameters_; }
  const std::vector<std::size_t>& own_places() const { return own_places_; }
  /// The shard's optimizer.
  Optimizer& optimizer() { return *optimizer_; }

  int newest() const { return versions().rbegin()->first; }
  /// Flat buffers by version, oldest first; shards with ZeRO 3.
  const std::map<int, Tensor>& versions() const { return shard_.zero == 3 ? shards_ : whole_; }

  /// Keeps versions oldest, ..., newest: a missing one begins as a copy of the oldest version that
  /// is here; older ones are freed.
  void keep_from(int oldest);

  Tensor own_sum(int version) { return own(sum(version)); }
  /// Frees all of a sum but the shard.
  void cut_sum(int version);
  /// Memory for a whole version that is gathered, with the shard in its place.
  Tensor bring_shard(int version);

  /// Makes version newest + 1 from the newest and its sum, which is freed. Without `keep_old` it
  /// takes the newest one's place in memory. Only the shard of it is up to date.
  void step(const StepSettings& settings, bool keep_old);
  void release(int version) override;

  /// Keeps a copy of the newest version, as it is stored, for rewind().
  void remember();
  /// The copy that remember() kept; undefined if there is none.
  const Tensor& remembered() const { return remembered_; }
  /// Sets all versions to the remembered values. The optimizer begins anew, and counts its steps
  /// from the newest version on.
  void rewind(const Training& training);
  /// The version that the optimizer counts its steps from.
  int begun() const { return begun_; }
  void count_steps_from(int version) { begun_ = version; }

  /// Gathers a buffer of `count` elements from the shards of all holders.
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

}  // namespace plangrad::parallel
