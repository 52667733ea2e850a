// Hosts: which ranks share a machine, for reductions that add up on each host first.
// Not here: these reductions (collective.h).
// Chapter 10.
#pragma once

#include <string>
#include <vector>

#include "parallel/transports/transport.h"

namespace paragrad::parallel {

/// Numbers of hosts by rank, from their names by rank: in the order of their first ranks.
std::vector<int> host_numbers(const std::vector<std::string>& names);
/// The same, by the names that this network knows the hosts by. All ranks call it together.
/// throws: Error after `timeout` seconds, or if a host has no name
std::vector<int> hosts_of_ranks(Transport& transport, double timeout);
/// Runs of so many ranks, on a host each; the last may have fewer.
std::vector<int> hosts_in_order(int ranks, int ranks_per_host);

}  // namespace paragrad::parallel
