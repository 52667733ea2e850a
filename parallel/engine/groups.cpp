// A member is counted in the order of its group's ranks.
// Chapter 04.
#include "parallel/engine/groups.h"

#include <algorithm>

#include "parallel/transports/channels.h"

namespace paragrad::parallel {

std::shared_ptr<CollectiveRun> Groups::run(MakeCollective make, int group, const Tensor& x,
                                           AllReduce how, CollectiveRun::Encoding encoding) const {
  const std::vector<int>& ranks = row_.plan.groups[group];
  const auto member = std::find(ranks.begin(), ranks.end(), row_.rank) - ranks.begin();
  Summing summing{how};
  if (!hosts_.empty())
    for (int rank : ranks) summing.hosts.push_back(hosts_.at(rank));
  Collective steps = make(summing, static_cast<int>(member), static_cast<int>(ranks.size()));
  return std::make_shared<CollectiveRun>(steps, x, ranks, group_channel(group),
                                         CollectiveRun::default_piece, encoding);
}

}  // namespace paragrad::parallel
