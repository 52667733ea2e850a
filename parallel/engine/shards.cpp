// Members are counted in the order of ranks.
// Chapter 09.
#include "parallel/engine/shards.h"

#include <algorithm>

#include "autograd/error.h"
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {

Shard shard_of(const Plan& plan, int stage, int rank) {
  if (plan.sharded == 0) return {};
  const std::vector<int> ranks = holders(plan).at(stage);
  auto found = std::find(ranks.begin(), ranks.end(), rank);
  PG_CHECK(found != ranks.end(), "rank ", rank, " has no shard of stage ", stage);
  return {plan.sharded, static_cast<int>(found - ranks.begin()), static_cast<int>(ranks.size())};
}

}  // namespace paragrad::parallel
