// Rank environment: what mpirun, srun or torchrun tell a process that is one of several, and which
// ranks share a host. A program that was started so and went on alone would train the same model
// several times: it asks here. Not here: talking to the others (mpi_transport). Chapters 04, 10.
#pragma once

#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "parallel/transports/transport.h"

namespace paragrad::parallel {

struct RankEnvironment {
  std::string launcher;  ///< "Open MPI", "MPICH", "Slurm" or "torchrun"
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< among those on this host; -1: not told
};

/// One variable of the environment; null where it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Nothing if the process was started alone, or as the only one.
/// A Slurm batch script sees the variables of its whole job without being one of its tasks; it is
/// known by having a job but no step.
/// throws: Error if a value is not a number, or the values contradict each other
std::optional<RankEnvironment> rank_environment(const Variable& variable = std::getenv);

/// Numbers of hosts by rank, from their names by rank: in the order of their first ranks, so that
/// sums by hosts have one order.
std::vector<int> host_numbers(const std::vector<std::string>& names);
/// Numbers of hosts by rank, from the names that the network knows them by. All ranks call it
/// together.
/// throws: Error after `timeout` seconds, or if a host has no name
std::vector<int> hosts_of_ranks(Transport& transport, double timeout);
/// Numbers of hosts by rank, where each has `ranks_per_host` ranks; the last may have fewer.
std::vector<int> hosts_in_order(int ranks, int ranks_per_host);

}  // namespace paragrad::parallel
