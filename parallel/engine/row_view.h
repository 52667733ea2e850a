// RowView: one rank's row of a plan, and what is known of it before it runs.
// Not here: how it runs (interpreter.h).
// Chapter 05.
#pragma once

#include <compare>
#include <set>
#include <vector>

#include "parallel/plan/lifetimes.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// The gradient sum of a stage that makes a version; or these weights.
struct Made {
  int stage = 0, version = 0;
  friend auto operator<=>(const Made&, const Made&) = default;
};

struct RowView {
  /// `verified` must outlive it. `number`: of the plan, among those that the run has made.
  RowView(const VerifiedPlan& verified, int rank, int number);

  const Plan& plan;
  const Row& row;
  int rank, number;
  std::size_t capacity;  ///< messages that a channel holds
  Lifetimes lifetimes;
  std::vector<int> tied_versions;
  std::vector<std::vector<int>> holders;  ///< ranks, per stage
  std::set<Made> stepped;                 ///< sums that the row makes a step with
  std::set<Made> sent;                    ///< finished sums that it sends

  /// Whether a sum that is named by a microbatch lacks nothing.
  bool is_finished(int micro) const { return micro == plan.last_micro_of(plan.made_by(micro)); }
  /// The sum that an instruction acts on.
  Made sum_of(const Instruction& x) const {
    return {x.stage, x.micro >= 0 ? plan.made_by(x.micro) : x.version};
  }
  Name finished_name(const Made& sum) const {
    return {Value::gradient_sum, sum.stage, plan.last_micro_of(sum.version)};
  }
};

}  // namespace paragrad::parallel
