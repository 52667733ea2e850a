// RunLayout: how a run's work is laid out over its ranks, found from its flags: the plans, the
// parts of a batch. Not here: flags (run_flags.h), and what runs the plans (run_session.h).
// Chapter 06.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "examples/common/run_flags.h"
#include "parallel/engine/training.h"

namespace paragrad::examples {

class RunLayout {
 public:
  /// `started` ranks are there already (0: none). `tied`: the model's ends share a tensor.
  /// throws: Error if the flags don't fit each other, or the number of ranks
  RunLayout(const RunFlags& run, int started, bool tied);

  int ranks() const { return ranks_; }
  /// Steps done before.
  int first() const { return first_; }
  /// The run's plans; all ranks of this process share them.
  const std::shared_ptr<parallel::Plans>& plans() const { return plans_; }
  /// The plan of the first steps that are to be done.
  parallel::Plans::Shared first_plan() const { return plans_->shortest(first_); }
  /// The host of each rank, for hierarchical sums; empty: other sums, or hosts go by their names.
  std::vector<int> hosts() const;
  /// The text of the user's own plan, which a checkpoint keeps; empty: there is none.
  std::string own_plan() const { return own_plan_ ? parallel::print(*own_plan_) : ""; }
  /// Microbatches whose gradients make one update.
  int per_step() const;
  /// Sequences or images in a microbatch, and in all of one update.
  std::int64_t rows() const { return run_.batch / pieces(); }
  std::int64_t rows_per_step() const { return rows() * per_step(); }

  /// Updates of the plan that the report shows.
  int reported_steps() const;

  /// All that flags say of a training but its optimizer.
  parallel::Training training(const nn::Model& model) const;
  /// The flags that decide the run, with the layout that was found.
  nlohmann::json flags() const;
  /// A line on plan and ranks, for the user.
  std::string describe() const;
  std::string title() const;

 private:
  std::shared_ptr<parallel::Plans> make_plans() const;
  void read_own_plan();
  void choose_clip();
  void check_reduction() const;
  std::int64_t pieces() const { return std::int64_t{layout_.microbatches} * layout_.width; }
  bool updates_per_microbatch() const { return parts_.behaviour().updates_per_microbatch; }

  RunFlags run_;
  bool tied_;
  ScheduleFlags parts_;      // as the flags have them, and what was found for those not given
  parallel::Layout layout_;  // that follows from the parts
  int ranks_;
  int first_ = 0;
  std::optional<parallel::Plan> own_plan_;
  std::shared_ptr<parallel::Plans> plans_;
};

}  // namespace paragrad::examples
