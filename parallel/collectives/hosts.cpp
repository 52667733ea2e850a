// Hosts get numbers in the order of their first ranks, so that sums by hosts have one order.
// Not here: the sums (collective.cpp). Chapter 10.
#include "parallel/collectives/hosts.h"

#include <unistd.h>

#include <map>
#include <set>

#include "autograd/error.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

std::vector<int> host_numbers(const std::vector<std::string>& names) {
  std::map<std::string, int> numbers;
  std::vector<int> hosts;
  for (const std::string& name : names)
    hosts.push_back(numbers.try_emplace(name, static_cast<int>(numbers.size())).first->second);
  return hosts;
}

std::vector<int> hosts_of_ranks(Transport& transport, double timeout) {
  char name[256] = "";
  PG_CHECK(gethostname(name, sizeof name - 1) == 0 && name[0] != 0,
           "this host doesn't tell its name; say with --ranks-per-host which ranks share one");
  return host_numbers(all_gather_bytes(transport, name, timeout));
}

std::vector<int> hosts_in_order(int ranks, int ranks_per_host) {
  std::vector<int> hosts;
  for (int rank = 0; rank < ranks; ++rank) hosts.push_back(rank / ranks_per_host);
  return hosts;
}

void check_hosts(const Plan& plan, const std::vector<int>& hosts) {
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) {
      if (x.op != Op::reduce || x.what != Value::gradient_sum || x.peer < 0) continue;
      const std::vector<int>& group = plan.groups[x.peer];
      std::set<int> own;
      for (int rank : group) own.insert(hosts.at(rank));
      if (own.size() > 1 && own.size() < group.size()) return;
    }
  throw autograd::Error(
      "--reduction hierarchical: no group that sums up gradients has two ranks on one host and "
      "others elsewhere, so it would do what scatter does; use --reduction scatter, or say with "
      "--ranks-per-host N which ranks to take for a host");
}

}  // namespace paragrad::parallel
