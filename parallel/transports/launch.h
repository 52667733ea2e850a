// Launch: starts ranks as threads, and lets ranks wait for each other, with deadlines, and talk
// around a plan. Not here: processes, which mpirun or srun start (mpi_transport), and plans
// (engine). Chapter 04.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
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

/// Says that this rank is at work: between plans a rank may be busy on its own for long, with files
/// as a rule. While this object lives, the others learn what the rank works on and hear signs of
/// life, so they wait for it whatever their deadline. Only its thread uses the transport meanwhile;
/// no message may be under way.
class AtWork {
 public:
  AtWork(Transport& transport, Work work);
  ~AtWork();
  AtWork(const AtWork&) = delete;
  AtWork& operator=(const AtWork&) = delete;

 private:
  void give_signs_of_life();

  Transport& transport_;
  Position position_;  // to go back to
  std::atomic<bool> over_ = false;
  std::thread thread_;  // last: it uses all of the above
};

/// Where a rank was that has been heard of: "saving" or another kind of work, else `in_plan`;
/// preceded by "last heard of, 3 s ago, " unless that is recent.
std::string place_of(const Transport& transport, int rank, const std::string& in_plan);

/// Seconds that are left of a time that begins now.
class Deadline {
 public:
  explicit Deadline(double seconds) : seconds_(seconds) {}
  double seconds() const { return seconds_; }
  double left() const;
  /// Restarts the time if another rank has moved on since the last call, or is at work and was
  /// heard of within it.
  void restart_if_progress(const Transport& transport);

 private:
  double seconds_;
  std::vector<Position> places_;  // of the others
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

/// Sleeps until something may have happened. `peer`, where given, is the rank that this one needs.
/// Time in which another rank gets on in its row or is at work (AtWork) does not count: those who
/// are ahead wait for those who are slow.
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
std::vector<std::string> gather_bytes(Transport& transport, std::string bytes, double timeout);
/// Rank 0's bytes, everywhere.
std::string broadcast_bytes(Transport& transport, std::string bytes, double timeout);
/// Everybody's bytes, in rank order, everywhere.
std::vector<std::string> all_gather_bytes(Transport& transport, std::string bytes, double timeout);

}  // namespace paragrad::parallel
