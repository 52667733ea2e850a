// Which codecs a plan can have. No tensors.
// Not here: what they do (codec.h). Chapter 10.
#pragma once

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// throws: Error if a codec of the plan's header has nothing to encode, or can't encode what there
///         is
void check_codecs(const Plan& plan);

/// Whether groups of ranks add up gradients, so that it matters how.
bool sums_in_groups(const Plan& plan);

}  // namespace paragrad::parallel
