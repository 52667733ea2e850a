// Board: on it ranks of an MPI job note how far they are, and that they give up.
// Not here: messages of plans. Private to the MPI transport: the one header with MPI's types.
// Chapter 04.
#pragma once

#include <mpi.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/transports/transport.h"

namespace paragrad::parallel {

/// throws: Error with MPI's own text, unless code is MPI_SUCCESS
void check_mpi(int code, const char* call);
std::string mpi_error_text(int code);
/// Whether a request is through, be it by an error.
bool through(MPI_Request& request);

/// The part of the MPI transport that is not about messages.
class MpiBoard : public Transport {
 public:
  explicit MpiBoard(MPI_Comm comm);
  MPI_Comm comm() const { return comm_; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(outbox_.size()); }

  // Any thread may call these.
  void publish(Position position) override { positions_[rank_] = position; }
  Position position(int rank) const override { return positions_.at(rank); }
  /// Seconds since a note of another rank was read.
  double silence(int rank) const override;
  void fail(const std::string& what) override;
  bool failed() const { return failed_; }

  // The thread that drives the transport calls these.

  /// Takes what came, and sends a failure at once, and every 0.2 s where this rank is: the others
  /// know from that that it is alive.
  void drive();
  /// The same, unless that was a moment ago.
  void drive_now_and_then();
  /// The failures of other ranks, in the order in which they were heard of.
  const std::vector<Failure>& failures() const { return failures_; }
  /// Whether all that was sent has left, and a failure of this rank has been sent to all.
  bool all_told();
  /// Sends nothing more, but listens.
  void fall_silent() { silent_ = true; }
  void stop_listening();

 private:
  /// What one rank tells another. Short, so that MPI sends it without waiting for the receiver.
  struct Note {
    Position position;
    std::int32_t beat = 0;  // counts the regular notes
    std::int32_t failed = 0;
    char what[1012] = {};
  };
  struct Outgoing {
    MPI_Request request = MPI_REQUEST_NULL;
    Note note;
  };

  void listen();
  bool read();
  Note own_note();
  bool tell(int peer, const Note& note);

  MPI_Comm comm_;
  int rank_ = 0;
  std::vector<std::atomic<Position>> positions_;
  std::vector<std::atomic<std::chrono::steady_clock::time_point>> heard_;  // when, by rank
  std::mutex mutex_;                                                       // guards failure_
  std::string failure_;
  std::atomic<bool> failed_ = false;

  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  Note incoming_;
  std::vector<Outgoing> outbox_;
  std::vector<Failure> failures_;
  int beat_ = 0;
  bool told_failure_ = false, silent_ = false;
  std::chrono::steady_clock::time_point looked_, sent_;
};

}  // namespace paragrad::parallel
