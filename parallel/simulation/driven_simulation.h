// The order in which a message-driven plan is run where costs are known. Which line of work a rank
// goes on with depends on what has come, so times and order are found together.
// Not here: the plan's timeline, which follows from that order as from any other (simulate.h).
// Chapter 06.
#pragma once

#include "parallel/simulation/cell_order.h"

namespace paragrad::parallel {

/// For each rank, the cells of its row as they are run; fewer than there are if it can't go on.
std::vector<std::vector<int>> driven_orders(const Plan& plan, const Costs& costs,
                                            const Events& events);

}  // namespace paragrad::parallel
