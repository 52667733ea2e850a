// CellOrder: the order in which a row runs: cell after cell, unless the plan is message-driven.
// Not here: times (simulation/driven.cpp), the engine's waiting (engine/driven_row.cpp).
// Chapter 06.
#pragma once

#include <memory>
#include <vector>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// The order in which a rank runs the cells of its row. As a rule it is the row's own order; in a
/// message-driven plan it depends on which inputs have arrived.
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
Plan plan_as_it_ran(const Plan& plan, const std::vector<std::vector<int>>& orders);

}  // namespace plangrad::parallel
