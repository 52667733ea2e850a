// simulate: when each of a plan's cells would run, given what computations and messages cost.
// Not here: the costs of one instruction (costs), pictures (draw), running the plan (engine).
// Chapter 06.
//
// The room parallel/simulation says when a plan's instructions would run, and what follows from
// when they ran, measured or simulated:
// costs.h        what computations and messages cost; machine.h: the devices and links of machines
// simulate.cpp   what waits for what, as a graph walked once
// events.h       what waits for what, and the order of cells in message-driven plans
// meetings.cpp   sums, message by message, and when events end; links.h: the links that they share
// variants.h     plans that are endless or broken, or whose ranks had cores of their own
// time_steps.h   what is alive and sent, as time goes by
// breakdown.h    what waited for what, where a timeline's time goes, and its critical path
// holdings.h     what ranks hold, and when; memory.cpp: its bytes; under_way.cpp: workspace
// The engine writes the same timeline as the simulator, so that both can be drawn side by side.
#pragma once

#include "parallel/plan/timeline.h"
#include "parallel/simulation/costs.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// The plan with its rows in the order in which they would run at these costs; it differs only if
/// the plan is message-driven.
Plan in_order(const Plan& plan, const Costs& costs);

/// Makes a record for each instruction, rank by rank, in the order of the rows or, in a message-
/// driven plan, in the order that events.cpp finds. Every rank has two lanes:
/// - computations run in the row's order, each as soon as its inputs have arrived;
/// - a message is issued when the computations before it in the row are done. It begins when both
///   ends, or all members of its group, have issued it and the messages before it between the two
///   ranks in that direction, or in that group, have completed.
/// Takes time in proportion to the number of instructions.
/// throws: Error if the costs do not fit the plan
/// source: tutorial 06
Timeline simulate(const VerifiedPlan& plan, const Costs& costs);

struct EventTimes;  // events.h

/// A plan whose cells wait for each other in the order of the rows, which is found once. It can be
/// simulated at several costs.
class Simulation {
 public:
  /// plan: may break the verifier's rules. throws: Error if a cell makes no sense
  explicit Simulation(Plan plan);
  ~Simulation();

  const Plan& plan() const;
  /// throws: Error as simulate_unverified()
  EventTimes times(const Costs& costs) const;
  /// The timeline of these times, which were found at these costs.
  Timeline timeline(const EventTimes& times, const Costs& costs) const;

 private:
  struct Graph;
  std::unique_ptr<const Graph> graph_;
};

/// Simulates a plan that may break the verifier's rules.
/// throws: Error, also if the plan can't run to its end
Timeline simulate_unverified(const Plan& plan, const Costs& costs);

}  // namespace plangrad::parallel
