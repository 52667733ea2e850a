// How far a plan gets that the verifier rejects, and when its instructions would run until then.
// Not here: what is wrong with it (verify), plans that are right (simulate).
// Chapter 06.
#pragma once

#include <vector>

#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

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

}  // namespace plangrad::parallel
