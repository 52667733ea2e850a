// TimeSteps: counts of what a timeline has alive, computes and sends in each time step.
// Not here: how long a time step is, and single messages (parallel/simulation/time_steps.h).
// Chapters 06 and 08.
#pragma once

#include "parallel/simulation/time_steps.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Counts with one entry per time step; the last entry counts only what happens at the very end.
struct TimeSteps {
  double length = 0;        ///< length of a time step, in seconds
  std::vector<int> alive;   ///< the most activations at a moment
  std::vector<int> sums;    ///< gradient sums of a stage that are sent. A round of an all-reduce,
                            ///< in which N ranks send 1/N each, counts as one: 2 (N-1) in all
  std::vector<int> values;  ///< values of a stage that are sent: sums, activations, weights, ...
  std::vector<std::int64_t> bytes;
  std::vector<std::vector<int>> computations;  ///< by stage: forwards and backwards begun
  int first = 0, last = 0;  ///< time steps [first, last) are the update in the middle of the plan,
                            ///< from its first forward to the next one's: steady in plans of eight

  /// The time step that `seconds` lies in.
  int at(double seconds) const { return static_cast<int>(seconds / length + 1e-6); }
};

/// Why the time steps of a plan's timeline are not counted; empty: they are. Where something else
/// takes far longer than computations, there are more of them than anybody can read.
std::string uncounted(const Plan& plan, const Timeline& timeline);

/// throws: Error if they are not counted
TimeSteps time_steps(const Plan& plan, const Timeline& timeline);

}  // namespace plangrad::examples
