// Launch: starts ranks as threads, and lets ranks talk around a plan: blocking, with deadlines.
// Not here: processes, which mpirun or srun start (mpi_transport), and plans (engine).
// Chapter 04.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "parallel/transports/transport.h"

namespace paragrad::parallel {

/// Runs body(transport) on one thread a rank, and returns when all have ended.
/// throws: Error `rank 2: ...` with the report of the rank that failed first; what the others
///         reported, as a rule that they were `stopped by rank 2`, follows line by line
void run_ranks(int ranks, const std::function<void(Transport&)>& body, int capacity = 0);

/// `rank 2: what`, once, also where `what` begins so already; just `what` for rank -1.
std::string report(int rank, const std::string& what);

/// throws: Error if another rank has failed; `doing` says what this rank was at
void stop_if_failed(Transport& transport, const std::string& doing);

/// The prefix "last heard of, 3 s ago, " for where a rank was; empty if that is recent.
std::string age_of_news(const Transport& transport, int rank);

/// Seconds that are left of a time that begins now.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  double seconds() const { return seconds_; }
  double left() const;
  /// Restarts the time if another rank has moved on since the last call, or is at work.
  void restart_if_progress(const Transport& transport);

 private:
  double seconds_;
  std::vector<Position> places_;  // of the others
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Sleeps until something may have happened. `peer`, where given, is the rank that this one needs.
/// Time in which another rank gets on in its row or is at work (at_work.h) does not count: those
/// who are ahead wait for those who are slow.
/// throws: Error `rank 1: waited 60 s for <what>; rank 2 was at ...` after the deadline, or if
///         another rank has failed
void wait_for_news(Transport& transport, Deadline& deadline, const std::string& what,
                   int peer = -1);

/// Sleeps until the request is done; throws as wait_for_news does.
void wait_for(Transport& transport, Request& request, double seconds, const std::string& what,
              int peer = -1);

// All ranks call these together. `timeout`: seconds that each wait may take in which nobody
// gets on.

/// Everybody's bytes, in rank order, on rank 0; nothing elsewhere.
std::vector<std::string> gather_bytes(Transport& transport, const std::string& bytes,
                                      double timeout);
/// Rank 0's bytes, everywhere.
std::string broadcast_bytes(Transport& transport, const std::string& bytes, double timeout);
/// Everybody's bytes, in rank order, everywhere.
std::vector<std::string> all_gather_bytes(Transport& transport, const std::string& bytes,
                                          double timeout);

}  // namespace paragrad::parallel
