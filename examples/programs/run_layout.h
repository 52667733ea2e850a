// RunLayout: derives from the flags how a run's work is laid out over its ranks: the plans, and the
// parts of a batch. Not here: flags (run_flags.h), and the code that runs plans (run_session.h).
// Chapter 06.
#pragma once

#include "examples/programs/run_flags.h"
#include "parallel/engine/training.h"

namespace plangrad::examples {

class RunLayout {
 public:
  /// `started`: the number of ranks that exist already, 0 if the flags decide it. `tied`: the first
  /// and the last stage share a tensor. `layers`: the model's, the most stages that it can have.
  /// throws: Error if flags or ranks do not fit together
  RunLayout(const RunFlags& run, int started, bool tied, int layers);

  int ranks() const { return ranks_; }
  /// Number of updates that a resumed run has done already.
  int first() const { return first_; }
  /// The run's plans; all ranks of this process share them.
  const std::shared_ptr<parallel::Plans>& plans() const { return plans_; }
  /// The plan of the first updates that remain.
  parallel::Plans::Shared first_plan() const { return plans_->shortest(first_); }
  /// The host of each rank, for hierarchical sums; empty for other sums, and if host names decide.
  std::vector<int> hosts() const;
  /// How groups sum gradients: --reduction, or the choice made for `auto`.
  parallel::AllReduce reduction() const;
  /// The text of the plan given by --plan, which a checkpoint keeps; empty without --plan.
  std::string own_plan() const { return own_plan_ ? parallel::print(*own_plan_) : ""; }
  /// Microbatches whose gradients make one update.
  int per_step() const;
  /// Sequences or images in a microbatch (rows) and in an update (rows_per_step).
  std::int64_t rows() const { return run_.batch / pieces(); }
  std::int64_t rows_per_step() const { return rows() * per_step(); }

  /// Number of updates that the report's timeline shows.
  int reported_steps() const;

  /// The training that the flags describe, without its optimizer.
  parallel::Training training(const nn::Model& model) const;
  /// The flags that affect the run's result, with the layout that was found.
  nlohmann::json flags() const;
  /// Names each flag that has no effect in this layout, as "; ..."; empty: there is none.
  std::string gives_way() const;
  /// Describes plan and ranks to the user, in one line.
  std::string describe() const;
  std::string title() const;
  /// A short name of the plan: the schedule's.
  std::string name() const { return own_plan_ ? "plan" : parts_.schedule; }

 private:
  std::shared_ptr<parallel::Plans> make_plans() const;
  void read_own_plan();
  void choose_clip();
  void choose_buckets(int layers);
  void choose_reduction();
  void check_reduction();
  std::int64_t pieces() const { return std::int64_t{layout_.microbatches} * layout_.width; }
  bool updates_per_microbatch() const { return parts_.behaviour().updates_per_microbatch; }

  RunFlags run_;
  bool tied_;
  bool chose_reduction_ = false, chose_buckets_ = false;
  ScheduleFlags parts_;      // given by flags, or found
  parallel::Layout layout_;  // follows from parts_
  int ranks_;
  int first_ = 0;
  std::optional<parallel::Plan> own_plan_;
  std::shared_ptr<parallel::Plans> plans_;
};

}  // namespace plangrad::examples
