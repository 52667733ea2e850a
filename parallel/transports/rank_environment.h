// How a process joins the ranks of its job: what mpirun, srun or torchrun tell a process that is
// one of several (a program that ignored it would train the same model in every process), and which
// ranks share a host; and a watch that ends a process that would wait for ever.
// Not here: talking to the others (mpi_transport). Chapters 04, 10.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "autograd/error.h"
#include "parallel/transports/transport.h"

namespace plangrad::parallel {

struct RankEnvironment {
  std::string launcher;  ///< "Open MPI", "MPICH", "Slurm" or "torchrun"
  int rank = 0, size = 1;
  int local_rank = -1, local_size = -1;  ///< among the ranks of this host; -1: unknown
};

/// Reads a variable of the environment; null if it is not set.
using Variable = std::function<const char*(const char* name)>;

/// Returns what the launcher tells this process; nothing if it was started alone, or as the only
/// one. A Slurm batch script sees the variables of its job without being one of its tasks; having a
/// job but no step tells it apart.
/// throws: Error if a value is not a number, or the values contradict each other
std::optional<RankEnvironment> rank_environment(const Variable& variable = std::getenv);

/// The name of this host; empty if it doesn't tell it.
std::string host_name();
/// Numbers the hosts, given the name of each rank's host: in the order of their first ranks, so
/// that sums by hosts have one order. Returns host numbers by rank.
std::vector<int> host_numbers(const std::vector<std::string>& names);
/// Returns host numbers by rank, from the names of the hosts themselves. All ranks call it
/// together.
/// throws: Error after `timeout` seconds, or if a host has no name
std::vector<int> hosts_of_ranks(Transport& transport, double timeout);
/// Returns host numbers by rank if each host has `ranks_per_host` ranks; the last may have fewer.
std::vector<int> hosts_in_order(int ranks, int ranks_per_host);

/// MPI_Init waits for all ranks of a job and has no deadline of its own. A watch that lives for
/// `seconds` prints the reason to stderr and ends the process with status 1. mpirun then ends
/// the other ranks.
class JoinWatch {
 public:
  explicit JoinWatch(double seconds)
      : thread_([seconds](const std::stop_token& joined) {
          std::mutex mutex;
          std::unique_lock lock(mutex);
          std::condition_variable_any over;
          over.wait_for(lock, joined, std::chrono::duration<double>(seconds), [] { return false; });
          if (joined.stop_requested()) return;
          std::cerr << autograd::text(
              "waited ", seconds, " s for the other ranks to join (MPI_Init): one of them has not ",
              "started, or the hosts can't reach each other; see what mpirun says\n");
          std::_Exit(EXIT_FAILURE);
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace plangrad::parallel
