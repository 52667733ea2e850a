// simulate: in which order a plan's cells run, and when each of them would, given what computations
// and messages cost.
// Not here: the costs of one instruction (costs), pictures (draw), running the plan (engine).
// Chapter 06.
//
// The room parallel/simulation says when a plan's instructions would run, and what follows from
// when they ran, measured or simulated:
// costs.h        what computations and messages cost
// simulate.cpp   what waits for what, as a graph walked once; events.h: who brings a value
// driven.cpp     the order of cells in message-driven plans
// timeline.h     when each instruction ran; what is alive and sent in each time step
// The engine writes the same timeline as the simulator, so that both can be drawn side by side.
#pragma once

#include <memory>
#include <vector>

#include "parallel/simulation/costs.h"
#include "parallel/simulation/timeline.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// Which cell of its row a rank runs next. As a rule it is the row's own order; a message-driven
/// plan leaves a choice to what has come (driven.cpp).
class CellOrder {
 public:
  /// `row` must outlive it.
  explicit CellOrder(const Row& row) : row_(row) {}
  virtual ~CellOrder() = default;
  /// Cells that may be next; of several, all are computations, and the first that can run is to.
  /// Empty at the end.
  virtual std::vector<int> next() const {
    return end_ < static_cast<int>(row_.size()) ? std::vector{end_} : std::vector<int>();
  }
  virtual void ran(int) { ++end_; }

 protected:
  const Row& row_;
  int end_ = 0;  ///< the first cell that keeps its place, and has not run
};

/// `row` must outlive it.
std::unique_ptr<CellOrder> make_order(const Plan& plan, const Row& row);

/// What ran, as a plan that runs in the order of its rows.
///   orders: of each rank, the cells of its row as they were run
Plan recorded(const Plan& plan, const std::vector<std::vector<int>>& orders);

/// The plan with its rows in the order in which they run where costs are known; as it is, unless
/// the plan leaves a choice.
Plan in_order(const Plan& plan, const Costs& costs);

/// A record for each instruction, rank by rank, in the order of the rows; of a message-driven plan,
/// in the order that driven.cpp finds. Every rank has two lanes:
/// - computations run in the row's order, each as soon as its inputs have arrived;
/// - a message is issued when the computations before it in the row are done. It begins when both
///   ends, or all members of its group, have issued it and the messages before it between the two
///   ranks in that direction, or in that group, are through.
/// Takes time in proportion to the number of instructions.
/// throws: Error if the costs do not fit the plan
/// source: tutorial 06
Timeline simulate(const VerifiedPlan& plan, const Costs& costs);

/// The same for a plan that nobody has verified.
/// throws: Error, also if the plan can't run to its end
Timeline simulate_unverified(const Plan& plan, const Costs& costs);

}  // namespace paragrad::parallel
