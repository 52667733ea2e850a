// The command `plan search`, which finds the fastest plans for a model on a machine.
// Not here: the search itself (parallel/planner/search.h). Chapter 16.
#pragma once

#include "examples/programs/plan_request.h"

namespace plangrad::examples {

Command search_command();

}  // namespace plangrad::examples
