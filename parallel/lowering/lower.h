// lower: adds to rows of computations the messages that connect them: sends and receives,
// reductions, norms, and the gathers of sharded weights.
// Not here: which rank computes what, in which order (schedules/), and checks (verifier/).
// Chapters 06 and 08.
//
// The room parallel/lowering runs through the computations with a clock, as ranks would if messages
// took no time, and writes each message at its instant into the rows of all its ranks. All rows
// therefore have the messages in one global order, and no plan that comes from here can hang.
// lowering.h  the clock (walk.cpp): when computations start and end; a first walk, which learns in
//             which order ranks make steps and use weights that travel; and the second walk, which
//             writes rows: a .cpp each for sums and for weights on their way
// The room depends on plans only. Schedules never write messages; a plan written by hand has them.
#pragma once

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// How a step's gradients become one sum. group: ranks reduce it together. ring: it moves from rank
/// to rank, microbatch by microbatch, then to the ranks that make the step. steady_ring: a ring
/// that sends equally many sums in every time step (cyclic-v1 in setting data).
enum class SumPath { group, ring, steady_ring };

/// Adds messages to a plan that has only computations.
/// throws: Error if the computations can't be run in their order
Plan lower(Plan plan, SumPath path = SumPath::group);

}  // namespace plangrad::parallel
