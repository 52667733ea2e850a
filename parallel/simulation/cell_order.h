// CellOrder: which cell of its row a rank runs next. As a rule it is the row's own order; a
// message-driven plan leaves a choice to what has come.
// Not here: that choice (driven_order.h, driven_simulation.h), and running the cell
// (engine/interpreter.h).
// Chapter 06.
#pragma once

#include <memory>
#include <vector>

#include "parallel/simulation/costs.h"

namespace paragrad::parallel {

class CellOrder {
 public:
  virtual ~CellOrder() = default;
  /// Cells that may be next; of several, all are computations, and the first that can run is to.
  /// Empty at the end.
  virtual std::vector<int> next() const = 0;
  virtual void ran(int cell) = 0;
};

/// `row` must outlive it.
std::unique_ptr<CellOrder> make_order(const Plan& plan, const Row& row);

/// What ran, as a plan that runs in the order of its rows.
///   orders: of each rank, the cells of its row as they were run
Plan recorded(const Plan& plan, const std::vector<std::vector<int>>& orders);

/// What the simulator makes of a plan. Cells are counted over all rows; an event, a computation or
/// a message with all its ends, is numbered by one of its cells.
struct Events {
  std::vector<int> of;      ///< by cell
  std::vector<int> before;  ///< by event: the one before it on its channel; -1: none
};

/// The plan with its rows in the order in which they run where costs are known; as it is, unless
/// the plan leaves a choice.
Plan in_order(const Plan& plan, const Costs& costs, const Events& events);

}  // namespace paragrad::parallel
