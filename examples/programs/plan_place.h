// The command `plan place`, which places the operators of a graph on devices.
// Not here: the placement itself (parallel/planner/placement.h). Chapter 16.
#pragma once

#include "examples/programs/plan_request.h"

namespace plangrad::examples {

Command place_command();

}  // namespace plangrad::examples
