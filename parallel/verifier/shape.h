// Shape: the verifier's first rule. Not here: the other rules, which may rely on this one.
// Chapter 06.
#pragma once

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// The header makes sense; every instruction has the fields that its operation takes, and they name
/// stages, microbatches, ranks and groups that exist.
/// throws: PlanError
void check_shape(const Plan& plan);

}  // namespace paragrad::parallel
