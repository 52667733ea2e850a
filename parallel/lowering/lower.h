// lower: adds to rows of computations the messages that connect them: sends and receives,
// reductions, norms, and the gathers of sharded weights.
// Not here: who computes what, and in which order (schedules/), and checks (verifier/).
// Chapters 06 and 08.
//
// The room parallel/lowering goes through the computations with a clock, as ranks would if
// messages took no time, and writes down each message at its instant, for all who take part. So
// all rows have them in one global order, and no plan that comes from here can hang.
// walk.h      the clock: what starts and ends when; and a first walk, which learns who makes steps,
//             and uses weights that travel, in which order
// lowering.h  the second walk, which writes rows: a .cpp each for sums, for shards, and for weights
//             that travel
// The room knows plans only. A schedule never writes a message, and a plan that a person wrote has
// them already.
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
