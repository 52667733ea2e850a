// What the rows of a message-driven plan must be like, so that any order of its two lines of work
// gives the same sums. Not here: the lines (driven_order.h). Chapter 06.
#pragma once

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// throws: PlanError, rule driven
void check_driven(const Plan& plan);

}  // namespace paragrad::parallel
