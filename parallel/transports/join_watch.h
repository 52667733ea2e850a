// JoinWatch: ends a process that would wait for ever to join the ranks of its job.
// Not here: joining (mpi_transport.cpp).
// Chapter 04.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <iostream>
#include <mutex>
#include <thread>

#include "autograd/error.h"

namespace plangrad::parallel {

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
