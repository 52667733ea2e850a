// What ranks tell each other of masks: counts, which they add up, and masks themselves.
// Not here: what they make of them (prune_run.h). Chapter 11.
#pragma once

#include "parallel/transports/transport.h"
#include "sparse/pruning.h"

namespace paragrad::sparse {

// All ranks call these together, between plans. `timeout`: see parallel/transports/launch.h.

SumCounts sum_over(Transport& transport, double timeout);
/// Everybody's masks, on all ranks.
Masks all_masks(Transport& transport, Masks own, double timeout);

}  // namespace paragrad::sparse
