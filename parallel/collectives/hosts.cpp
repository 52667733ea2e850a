// Hosts get numbers in the order of their first ranks, so that sums by hosts have one order.
// Not here: the sums (collective.cpp). Chapter 10.
#include "parallel/collectives/hosts.h"

#include <unistd.h>

#include <map>

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

}  // namespace paragrad::parallel
