// Board: notes by which the ranks of an MPI job tell how far they are, and that they give up.
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

namespace plangrad::parallel {

/// throws: Error with MPI's own text, unless code is MPI_SUCCESS
void check_mpi(int code, const char* call);
std::string mpi_error_text(int code);
/// Whether a request has ended, with or without an error.
bool has_ended(MPI_Request& request);

/// The part of the MPI transport that is not about messages: positions and failures.
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

  /// Reads the notes that have come. Sends this rank's failure at once, and every 0.2 s its
  /// position, from which the others also know that it is alive.
  void drive();
  /// Calls drive(), unless the last call was a moment ago.
  void drive_now_and_then();
  /// The failures of other ranks, in the order in which their notes were read.
  const std::vector<Failure>& failures() const { return failures_; }
  /// Whether all notes have left, and a failure of this rank has been sent to all others.
  bool notes_have_left();
  /// Sends nothing more, but listens.
  void fall_silent() { silent_ = true; }
  void stop_listening();

 private:
  /// A note from one rank to another, so short that MPI sends it without waiting for the receiver.
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
  bool send_note(int peer, const Note& note);

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
  bool failure_sent_ = false, silent_ = false;
  std::chrono::steady_clock::time_point driven_at_, notes_sent_at_;
};

}  // namespace plangrad::parallel
