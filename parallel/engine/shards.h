// Shards: which elements of a stage's flat buffer a rank keeps alone, and its index in the group.
// Not here: the buffers themselves (weight_store.h).
// Chapter 09; Rajbhandari et al. 2020 (ZeRO).
#pragma once

#include "autograd/tensor.h"
#include "parallel/collectives/collective.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {

// [snippet shard]
/// A rank's place among those that share a stage's state. The flat buffer is cut into as many
/// shards as there are members, as a collective cuts it into chunks, whatever the parameters'
/// borders: any number of elements can be cut, and sizes differ by one at most.
struct Shard {
  int zero = 0;  ///< what is sharded: Plan::sharded
  int member = 0, members = 1;

  /// Elements of this member's shard of a buffer of `count`; all of them where nothing is sharded.
  Range range(std::int64_t count) const { return chunk_range(count, member, members); }

  /// This member's shard of a whole buffer.
  autograd::Tensor window(const autograd::Tensor& whole) const {
    const Range own = range(whole.numel());
    return whole.window(own.begin, {own.size()});
  }

  friend bool operator==(const Shard&, const Shard&) = default;
};
// [end snippet]

/// throws: Error if the rank does not hold the stage
Shard shard_of(const Plan& plan, int stage, int rank);

}  // namespace paragrad::parallel
