// simulate: when each instruction of a plan would run, given what computations and messages cost.
// Not here: the costs of one instruction (costs), pictures (draw), running the plan (engine).
// Chapter 06.
//
// The room parallel/simulation says when a plan's instructions would run, and what follows from
// when they ran, measured or simulated:
// costs.h        what computations and messages cost; timeline.h: when each instruction ran
// simulate.cpp   what waits for what, as a graph walked once; arrivals.h: who brings a value
// cell_order.h   the order of a row's cells; driven_order.h: that of message-driven plans
// time_steps.h   activations alive, messages and bytes in each time step of a timeline
// The engine writes the same timeline as the simulator, so that both can be drawn side by side.
#pragma once

#include "parallel/simulation/costs.h"
#include "parallel/simulation/timeline.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// A record for each instruction, rank by rank, in the order of the rows; of a message-driven plan,
/// in the order that driven_simulation.h finds. Every rank has two lanes:
/// - computations run in the row's order, each as soon as its inputs have arrived;
/// - a message is issued when the computations before it in the row are done. It begins when both
///   ends, or all members of its group, have issued it and the messages before it between the two
///   ranks in that direction, or in that group, are through.
/// Takes time in proportion to the number of instructions.
/// throws: Error if the costs do not fit the plan
/// source: tutorial 06
Timeline simulate(const VerifiedPlan& plan, const Costs& costs);

/// The same for a plan that nobody has verified.
/// throws: Error, also if the plan can't run to its end
Timeline simulate_unverified(const Plan& plan, const Costs& costs);

}  // namespace paragrad::parallel
