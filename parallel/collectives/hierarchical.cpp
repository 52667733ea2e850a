// hierarchical: sums inside each host, then among hosts. It sends the data twice inside a host, and
// 2 (H-1)/H of it from each of H hosts. Not here: which rank is on which host. Chapter 10.
#include "autograd/error.h"
#include "parallel/collectives/collective.h"

namespace plangrad::parallel {

/// A round with one action on every chunk.
static Round each_chunk(Exchange::Action action, int peer, int chunks) {
  Round round;
  for (int chunk = 0; chunk < chunks; ++chunk) round.push_back({action, peer, chunk});
  return round;
}

// [snippet hosts]
/// The members of a host send all their values to its first member. The first members of all hosts
/// sum among themselves, a chunk each, and send the sum back to the others.
static Collective by_hosts(const Summing& how, int r, int n) {
  PG_CHECK(how.hosts.empty() || std::ssize(how.hosts) == n, "the hosts of ", how.hosts.size(),
           " members are known; the group has ", n);
  using enum Exchange::Action;
  std::map<int, std::vector<int>> by_host;
  for (int member = 0; member < n; ++member)
    by_host[how.hosts.empty() ? 0 : how.hosts[member]].push_back(member);
  if (by_host.size() == 1) return all_reduce({AllReduce::scatter_reduce}, r, n);
  std::vector<int> first;
  for (const auto& [host, members] : by_host) first.push_back(members.front());
  const std::vector<int>& here = by_host.at(how.hosts[r]);
  const int chunks = static_cast<int>(first.size());
  if (r != here.front())
    return {chunks,
            {each_chunk(send, here.front(), chunks), each_chunk(copy, here.front(), chunks)}};
  const int own = static_cast<int>(std::find(first.begin(), first.end(), r) - first.begin());
  std::vector<Round> rounds;
  for (std::size_t i = 1; i < here.size(); ++i) rounds.push_back(each_chunk(add, here[i], chunks));
  for (Round& round : all_reduce({AllReduce::scatter_reduce}, own, chunks).rounds) {
    for (Exchange& exchange : round) exchange.peer = first[exchange.peer];
    rounds.push_back(round);
  }
  for (std::size_t i = 1; i < here.size(); ++i) rounds.push_back(each_chunk(send, here[i], chunks));
  return {chunks, rounds};
}

ReductionEntry hierarchical_reduction() {
  return {.name = "hierarchical", .all_reduce = by_hosts, .by_hosts = true};
}
// [end snippet]

}  // namespace plangrad::parallel
