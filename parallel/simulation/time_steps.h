// What a timeline has alive and sends, as time goes by: activations, messages, bursts, and counts
// for each time step. Not here: what ranks hold in all (holdings.h), pictures.
// Chapters 06 and 08.
#pragma once

#include <cstdint>
#include <vector>

#include "parallel/plan/timeline.h"

namespace plangrad::parallel {

/// A number that holds from time `seconds` on.
struct Level {
  double seconds = 0;
  int count = 0;
};

/// Activations that are alive on all ranks together; those of one microbatch on one stage count 1,
/// from the start of the forward to the end of its backward, or until they are dropped. Between the
/// parts of a split backward, what the second part needs counts as 1, too. If one ends as another
/// begins, the level stays. The first level is at 0, the last one's count is 0.
/// source: Fournier and Oyallon 2024, section 3
std::vector<Level> activations_alive(const Timeline& timeline);

/// Mean length of a forward or backward, which the paper calls a time step. The two parts of a
/// backward count as one. In a time step each stage is computed once; on a single rank, which
/// computes stages one after another, it is as long as all of them take.
/// units: seconds
double time_step(const Timeline& timeline);

/// A message that a rank begins to send at a moment, or its part in one round of a collective.
/// The rounds of a collective are spread over the time that it takes.
struct Sending {
  int rank = 0;
  Instruction instruction;
  double seconds = 0;  ///< since the plan began, when all ends of the message have begun
  std::int64_t bytes = 0;
};

/// All that ranks send, in the order of time.
std::vector<Sending> sendings(const Plan& plan, const Timeline& timeline);

/// All that ranks send between the first forward of the second update and that of the last: without
/// the plan's beginning and its end, at which waiting values are sent all at once. A plan with
/// fewer than three updates is not shortened.
std::vector<Sending> inner_sendings(const Plan& plan, const Timeline& timeline);

/// The most bytes that all ranks together begin to send within any interval of `seconds`.
std::int64_t largest_burst(const std::vector<Sending>& sendings, double seconds);

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

/// throws: Error if no forward or backward of the timeline takes time
TimeSteps time_steps(const Plan& plan, const Timeline& timeline);

}  // namespace plangrad::parallel
