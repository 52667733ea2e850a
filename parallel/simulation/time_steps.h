// What a timeline has alive and sends, as time goes by: activations, messages, bursts; and how long
// a time step is. Not here: counts for each time step (examples/pages/time_steps.h), what ranks
// hold in all (holdings.h), pictures. Chapters 06 and 08.
#pragma once

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
  double seconds = 0;  ///< when all ends of the message have begun, since the plan began
  std::int64_t bytes = 0;
};

/// All that ranks send, in the order of time.
std::vector<Sending> sendings(const Plan& plan, const Timeline& timeline);

/// When each update of the plan begins, in seconds: with the first forward of its first microbatch.
std::vector<double> update_starts(const Plan& plan, const Timeline& timeline);

/// All that ranks send between the first forward of the second update and that of the last: without
/// the plan's beginning and its end, at which waiting values are sent all at once. A plan with
/// fewer than three updates is not shortened.
std::vector<Sending> inner_sendings(const Plan& plan, const Timeline& timeline);

/// The most bytes that all ranks together begin to send within any interval of `seconds`.
std::int64_t largest_burst(const std::vector<Sending>& sendings, double seconds);

}  // namespace plangrad::parallel
