// simulate: when each of a plan's cells would run, given what computations and messages cost; and how
// far a plan gets that breaks a rule.
// Not here: the costs of one instruction (costs), pictures (draw), running the plan (engine).
// Chapter 06.
//
// The room parallel/simulation says when a plan's instructions would run, and what follows from
// when they ran, measured or simulated:
// costs.h        what computations and messages cost; pretended.h: what a run pretends they cost
// simulate.cpp   what waits for what, as a graph walked once; events.h: what waits for what
// driven.cpp     the order of cells in message-driven plans
// steady_state.h endless plans: two bodies, and what an update takes in the long run
// time_steps.h   what is alive and sent in each time step
// breakdown.h    what waited for what, where a timeline's time goes, and its critical path
// holdings.h     what ranks hold, from when to when
// The engine writes the same timeline as the simulator, so that both can be drawn side by side.
#pragma once

#include <vector>

#include "parallel/simulation/costs.h"
#include "parallel/simulation/time_steps.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// The plan with its rows in the order in which they would run at these costs; it differs only if
/// the plan is message-driven.
Plan in_order(const Plan& plan, const Costs& costs);

/// Makes a record for each instruction, rank by rank, in the order of the rows or, in a message-
/// driven plan, in the order that driven.cpp finds. Every rank has two lanes:
/// - computations run in the row's order, each as soon as its inputs have arrived;
/// - a message is issued when the computations before it in the row are done. It begins when both
///   ends, or all members of its group, have issued it and the messages before it between the two
///   ranks in that direction, or in that group, have completed.
/// Takes time in proportion to the number of instructions.
/// throws: Error if the costs do not fit the plan
/// source: tutorial 06
Timeline simulate(const VerifiedPlan& plan, const Costs& costs);

/// Simulates a plan that may break the verifier's rules.
/// throws: Error, also if the plan can't run to its end
Timeline simulate_unverified(const Plan& plan, const Costs& costs);

/// How far a plan runs that the verifier rejects.
struct PartialTimeline {
  Timeline timeline;         ///< what runs, rank by rank, in the order of the rows
  std::vector<int> causes;   ///< by record: the record that it waited for last; -1: none
  std::vector<int> stopped;  ///< by rank: its first computation, or otherwise its first cell, that
                             ///< never runs; -1: its row ends
};

/// Simulates a broken plan. It stands still at the cell that breaks a rule, and so does all that
/// waits for it. Messages of which an end is missing, or whose ends name different values, do not
/// run.
///   rank, index: the cell that breaks a rule, from which on the row does not run; -1: none
/// throws: Error if the costs do not fit the plan, or its cells have no meaning (rule shape)
PartialTimeline simulate_until_blocked(const Plan& plan, const Costs& costs, int rank, int index);

/// Simulates the plan with the CPU time of each measured computation as its cost, as if each rank
/// had a core of its own. Messages cost what `costs` says. Ranks that share cores slow each other
/// down, and a rank that waits leaves its core to another, so their measured bubble is not that of
/// a machine with a core for each of them.
/// The result is exact for computations that use one thread and never wait. It leaves out the work
/// of other threads (see thread_seconds()), and keeps what sharing does to caches and memory.
///   plan: its rows have the order in which they ran; measured: its timeline, with Record::cpu
/// throws: Error if a computation of the plan was not measured
Timeline on_own_cores(const VerifiedPlan& plan, const Timeline& measured, Costs costs);

}  // namespace plangrad::parallel
