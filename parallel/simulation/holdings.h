// Holdings: the values that each rank keeps, and from when to when: versions of weights, the
// activations that its backwards need, gradient sums. Not here: bytes of a real run
// (autograd/memory_meter.h), and outputs on their way from stage to stage. Chapters 06 to 09.
#pragma once

#include <vector>

#include "parallel/plan/operations.h"
#include "parallel/simulation/timeline.h"

namespace paragrad::parallel {

/// A value that a rank holds from `start` to `end`, in seconds.
struct Holding {
  int rank = 0;
  Name name;           ///< weights, a stash of activations, or an open sum, which has the number of
                       ///< the version that it makes
  bool shard = false;  ///< of weights at ZeRO level 3: the rank's own part of them
  double start = 0, end = 0;
};

/// What the ranks hold while a simulated timeline runs, rank by rank in the order in which it
/// comes. A sum that is passed on leaves its rank; one that is reduced stays under the same name.
/// Of a message-driven plan, `plan` has the order that ran: in_order(plan, costs).
std::vector<Holding> holdings(const Plan& plan, const Timeline& timeline);

}  // namespace paragrad::parallel
