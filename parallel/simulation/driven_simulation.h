// The order in which a message-driven plan is run where costs are known. Which line of work a rank
// goes on with depends on what has come, so times and order are found together.
// Not here: the plan's timeline, which follows from that order as from any other (simulate.h).
// Chapter 06.
#pragma once

#include <vector>

#include "parallel/simulation/costs.h"

namespace paragrad::parallel {

/// What the simulator makes of a plan. Cells are counted over all rows; an event, a computation or
/// a message with all its ends, is numbered by one of its cells.
struct Events {
  std::vector<int> of;      ///< by cell
  std::vector<int> before;  ///< by event: the one before it on its channel; -1: none
};

/// For each rank, the cells of its row as they are run; fewer than there are if it can't go on.
std::vector<std::vector<int>> driven_orders(const Plan& plan, const Costs& costs,
                                            const Events& events);

}  // namespace paragrad::parallel
