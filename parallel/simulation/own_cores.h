// on_own_cores: a measured plan as if each rank had a core of its own. Ranks that share cores slow
// each other down, and a rank that waits leaves its core to another; so their measured bubble is
// not that of a machine with a core for each of them.
// Not here: whether ranks share cores (session/machine.h). Chapter 06.
#pragma once

#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

/// Simulates the plan with the CPU time of each measured computation as its cost. Messages cost
/// what `costs` says.
/// The result is exact for computations that use one thread and never wait. It leaves out the work
/// of other threads (see thread_seconds()), and keeps what sharing does to caches and memory.
///   plan: its rows have the order in which they ran; measured: its timeline, with Record::cpu
/// throws: Error if a computation of the plan was not measured
Timeline on_own_cores(const VerifiedPlan& plan, const Timeline& measured, Costs costs);

}  // namespace plangrad::parallel
