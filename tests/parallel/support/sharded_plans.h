// Sharded plans (ZeRO) of the simplest kind, written out for tests of what runs them.
// Not here: the schedules that users type (parallel/schedules/schedule.h).
#pragma once

#include "parallel/schedules/schedule.h"

namespace plangrad::tests {

/// Data parallelism over `ranks` ranks.
struct ShardedLayout {
  int zero = 1, ranks = 2, stages = 1;
  int microbatches = 1;  ///< of each rank, in each step
  int steps = 1, first = 0;
  bool clip = false;
};

/// ZeRO 1, 2: as plain data parallelism, with gathers after the steps. ZeRO 3: a stage's weights
/// are gathered while the stage used before computes, and dropped after their use.
parallel::Plan sharded_plan(const ShardedLayout& layout);

/// Forwards only, as many microbatches as ranks or fewer, on shards of version `first` (ZeRO 3).
parallel::Plan sharded_evaluation(const ShardedLayout& layout, int microbatches);

/// A plan that is not sharded, with ZeRO 1: its steps act on shards and are followed by gathers.
parallel::Plan with_zero_1(parallel::Plan plan);

}  // namespace plangrad::tests
