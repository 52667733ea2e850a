// Holdings: what each rank has in memory, and from when to when. They follow from the rows by the
// table of operations, in the time of a timeline.
// Not here: bytes, which a page derives from its model, and those of a real run
// (autograd/device.h). Chapters 06 to 09.
#pragma once

#include <vector>

#include "parallel/plan/operations.h"
#include "parallel/plan/timeline.h"

namespace plangrad::parallel {

/// How a rank has a value.
enum class Hold {
  weights,      ///< a version of a stage, whole
  shard,        ///< its part of a version (ZeRO)
  copy,         ///< a version that a message brought, until it is dropped
  activations,  ///< what a forward keeps for its backward
  input,        ///< a stage's input alone, until a second forward makes the rest again
  open_sum,     ///< the rank's own sum of gradients, while microbatches are missing
  sum,          ///< a sum that came from others, or is finished
  arrived,      ///< an output or gradient that has come and waits for its reader
  leaving,      ///< an output or gradient that waits until it is sent
};
constexpr int holds = 9;
/// The name of a kind, as pages show it: "weights", "gradient sum".
const char* name_of(Hold hold);

/// A value on a rank. Sums have the number of the version that they make.
struct Holding {
  int rank = 0;
  Hold hold = Hold::weights;
  Name name;
  double start = 0, end = 0;  ///< seconds
};

/// All that ranks hold during a plan, rank by rank in the order in which it comes.
///   plan: an ordinary plan, not an endless one, whose rows have the order in which they ran:
///         in_order(plan, costs)
///   timeline: simulated; cells without a record have not run
std::vector<Holding> holdings(const Plan& plan, const Timeline& timeline);

/// The most holdings of one kind that a rank has at once. If one ends as another begins, they do
/// not count together.
std::vector<int> most_held(const std::vector<Holding>& held, Hold hold, int ranks);

}  // namespace plangrad::parallel
