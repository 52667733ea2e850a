// The commands `plan rows`, which lists what is ready, and `plan order`, which searches an order of
// an update's cells.
// Not here: list scheduler and search (parallel/planner/order.h). Chapter 06.
#pragma once

#include "examples/programs/plan_request.h"

namespace plangrad::examples {

Command rows_command();
Command order_command();

}  // namespace plangrad::examples
