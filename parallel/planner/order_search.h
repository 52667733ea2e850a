// Order search: a short order of an update's cells under a limit of kept activations, by beam
// search, and a lower bound of what any order takes.
// Not here: which orders there are (order.h); how long a plan takes, which the simulator says.
// Chapter 06; Carlier 1982, "The one-machine sequencing problem" (the bound).
#pragma once

#include "parallel/planner/order.h"

namespace plangrad::parallel {

struct FoundOrder {
  Plan rows;               ///< computations alone: completed() makes a plan of them
  double seconds = 0;      ///< of the plan, simulated
  double bound = 0;        ///< no order takes less
  std::size_t states = 0;  ///< parts of orders that were looked at
};

/// The most cells of an update that is searched.
constexpr int most_ordered_cells = 4096;

/// Tells how many cells the orders of a beam have, of how many, and the best order until then.
using OrderProgress = std::function<void(int cells, int all, const FoundOrder& best)>;

/// Finds a short order: that of the list scheduler by some priorities, or a shorter one that a beam
/// search finds. A step of it adds a cell to each order that was begun, in all ways in which that
/// can pay, and keeps the `width` most promising ones. Narrow beams come first: with the best order
/// known, later ones leave out what can't be shorter. The best of each beam are lowered, verified
/// and simulated. The same task has the same result.
/// throws: Error, also if the task is too large
FoundOrder search_order(const OrderTask& task, int width, const OrderProgress& progress = {});

}  // namespace plangrad::parallel
