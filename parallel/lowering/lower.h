// lower: adds to rows of computations the messages that connect them: sends and receives,
// reductions, norms, and the gathers of sharded weights.
// Not here: who computes what, and in which order (schedules/), and checks (verifier/).
// Chapters 06 and 08.
#pragma once

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// How a step's gradients become one sum. In a group of ranks; or in a ring, one rank after the
/// other, microbatch by microbatch, and the sum goes on to those who step. In the steady ring, as
/// many sums leave in each time step as in any other; it is cyclic-v1's in setting data.
enum class SumPath { group, ring, steady_ring };

/// throws: Error if the computations can't be run in their order
Plan lower(Plan plan, SumPath path = SumPath::group);

}  // namespace paragrad::parallel
