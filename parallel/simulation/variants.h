// Simulations of plans that do not run as they are written: endless ones, as a timeline of two
// bodies with its bars and as what an update takes in the long run; measured ones, as if no two
// ranks shared a core; and broken ones, as far as they get.
// Not here: what an endless plan is (plan/plan.h), what is wrong with a broken one (verifier/),
// and simulation itself (simulate.h), whether ranks share cores (observers/recording.h).
// Chapters 06 and 07.
#pragma once

#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

/// Simulates head, two bodies and tail of an endless plan, which need not be verified; the timeline
/// has the moments of the bars. A plan of one length is simulated as it is.
/// throws: Error as simulate_unverified
Timeline simulate_two_bodies(const Plan& plan, const Costs& costs);

/// An endless plan once head and tail do not matter.
struct SteadyState {
  double seconds = 0;  ///< time that each update adds to the run
  double bubble = 0;   ///< share of the ranks' time in a body in which their compute lanes are idle
};

/// Compares five bodies with four: what the fifth adds.
///   seconds = (makespan(5) - makespan(4)) / period
///   bubble  = 1 - busy(body) / (ranks * (makespan(5) - makespan(4)))
/// throws: Error if the plan is not endless, or the costs do not fit it
SteadyState steady_state(const VerifiedPlan& plan, const Costs& costs);

/// Simulates the plan with the CPU time of each measured computation as its cost, as if each rank
/// had a core of its own. Messages cost what `costs` says. Ranks that share cores slow each other
/// down, and a rank that waits leaves its core to another, so their measured bubble is not that of
/// a machine with a core for each of them.
/// The result is exact for computations that use one thread and never wait. It leaves out the work
/// of other threads (see thread_seconds()), and keeps what sharing does to caches and memory.
///   plan: its rows have the order in which they ran; measured: its timeline, with Record::cpu
/// throws: Error if a computation of the plan was not measured
Timeline on_own_cores(const VerifiedPlan& plan, const Timeline& measured, Costs costs);

struct PartialTimeline {
  Timeline timeline;         ///< what runs, rank by rank, in the order of the rows
  std::vector<int> causes;   ///< the record that each waited for last; -1: none
  std::vector<int> stopped;  ///< each rank's first computation, or otherwise first cell, that
                             ///< never runs; -1: its row ends
};

/// Simulates a broken plan. It stands still at the cell that breaks a rule, and so does all that
/// waits for it. Messages of which an end is missing, or whose ends name other values, don't run.
///   rank, index: the cell that breaks a rule, from which on the row does not run; -1: none
/// throws: Error if the costs do not fit the plan, or its cells have no meaning (rule shape)
PartialTimeline simulate_until_blocked(const Plan& plan, const Costs& costs, int rank, int index);

}  // namespace plangrad::parallel
