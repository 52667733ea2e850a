// simulate: the order in which a plan's cells run, and when each of them would run, given what
// computations and messages cost.
// Not here: the costs of one instruction (costs), pictures (draw), running the plan (engine).
// Chapter 06.
//
// The room parallel/simulation says when a plan's instructions would run, and what follows from
// when they ran, measured or simulated:
// costs.h        what computations and messages cost; pretended.h: what a run pretends they cost
// simulate.cpp   what waits for what, as a graph walked once; events.h: what brings a value
// driven.cpp     the order of cells in message-driven plans
// steady_state.h endless plans: two bodies, and what an update takes in the long run
// timeline.h     when each instruction ran; what is alive and sent in each time step
// breakdown.h    where a timeline's time goes, and its critical path; wait_graph.h: what waited
// holdings.h     what ranks hold, from when to when
// partial.h      how far a plan runs that breaks a rule
// own_cores.h    a measured plan as if no two ranks shared a core
// The engine writes the same timeline as the simulator, so that both can be drawn side by side.
#pragma once

#include <memory>
#include <vector>

#include "parallel/simulation/costs.h"
#include "parallel/simulation/time_steps.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// The order in which a rank runs the cells of its row. As a rule it is the row's own order; in a
/// message-driven plan it depends on which inputs have arrived (driven.cpp).
class CellOrder {
 public:
  /// `row` must outlive it.
  explicit CellOrder(const Row& row) : row_(row) {}
  virtual ~CellOrder() = default;
  /// The cells that may be next; empty at the end. Several cells are all computations, and the rank
  /// runs the first of them that can run.
  virtual std::vector<int> next() const {
    return end_ < static_cast<int>(row_.size()) ? std::vector{end_} : std::vector<int>();
  }
  virtual void ran(int) { ++end_; }

 protected:
  const Row& row_;
  int end_ = 0;  ///< the first cell that keeps its place and has not run
};

/// `row` must outlive it.
std::unique_ptr<CellOrder> make_order(const Plan& plan, const Row& row);

/// The plan that ran: its rows have the order in which their cells ran.
///   orders: for each rank, the cells of its row in the order in which they ran
Plan recorded(const Plan& plan, const std::vector<std::vector<int>>& orders);

/// The plan with its rows in the order in which they would run at these costs; it differs only if
/// the plan is message-driven.
Plan in_order(const Plan& plan, const Costs& costs);

/// Makes a record for each instruction, rank by rank, in the order of the rows or, in a message-
/// driven plan, in the order that driven.cpp finds. Every rank has two lanes:
/// - computations run in the row's order, each as soon as its inputs have arrived;
/// - a message is issued when the computations before it in the row are done. It begins when both
///   ends, or all members of its group, have issued it and the messages before it between the two
///   ranks in that direction, or in that group, have completed.
/// Takes time in proportion to the number of instructions.
/// throws: Error if the costs do not fit the plan
/// source: tutorial 06
Timeline simulate(const VerifiedPlan& plan, const Costs& costs);

/// Simulates a plan that may break the verifier's rules.
/// throws: Error, also if the plan can't run to its end
Timeline simulate_unverified(const Plan& plan, const Costs& costs);

}  // namespace plangrad::parallel
