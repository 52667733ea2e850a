// Board: notes by which the ranks of an MPI job tell how far they are, and that they give up: small
// messages on a tag of their own, one at a time to each rank, so that a rank that is gone or slow
// takes no more memory than one note, and no rank waits for it.
// Not here: messages of plans. Private to mpi_transport.cpp: the one header with MPI's types.
// Chapter 04.
#pragma once

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <mutex>

#include "parallel/transports/transport.h"

namespace plangrad::parallel {

inline std::string mpi_error_text(int code) {
  char buffer[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, buffer, &length);
  return {buffer, static_cast<std::size_t>(length)};
}

/// throws: Error with MPI's own text, unless code is MPI_SUCCESS
inline void check_mpi(int code, const char* call) {
  PG_CHECK(code == MPI_SUCCESS, call, " failed: ", mpi_error_text(code));
}

/// Whether a request has ended, with or without an error.
inline bool has_ended(MPI_Request& request) {
  int flag = 1;
  return MPI_Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag;
}

/// The part of the MPI transport that is not about messages: positions and failures.
class MpiBoard : public Transport {
 public:
  explicit MpiBoard(MPI_Comm comm) : comm_(comm) {
    MPI_Comm_rank(comm, &rank_);
    int size = 0;
    MPI_Comm_size(comm, &size);
    positions_ = std::vector<std::atomic<Position>>(size);
    heard_ = std::vector<std::atomic<Clock::time_point>>(size);
    outbox_.resize(size);
    listen();
  }
  MPI_Comm comm() const { return comm_; }
  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(outbox_.size()); }

  // Any thread may call these.
  void publish(Position position) override { positions_[rank_] = position; }
  Position position(int rank) const override { return positions_.at(rank); }
  /// Seconds since a note of another rank was read.
  double silence(int rank) const override {
    return rank == rank_ ? 0 : Seconds(Clock::now() - heard_.at(rank).load()).count();
  }
  void fail(const std::string& what) override {
    {
      std::lock_guard lock(mutex_);
      if (failed_) return;
      const bool fits = what.size() < sizeof Note::what;  // else both ends stay: advice is last
      failure_ = fits ? what : what.substr(0, 500) + " ... " + what.substr(what.size() - 500);
      failed_ = true;
    }
    wake();
  }
  bool failed() const { return failed_; }

  // The thread that drives the transport calls these.

  /// Reads the notes that have come. Sends this rank's failure at once, and every 0.2 s its
  /// position, from which the others also know that it is alive.
  void drive() {
    driven_at_ = Clock::now();
    while (read()) {
    }
    bool regular = driven_at_ - notes_sent_at_ >= period;
    if (silent_ || (!regular && (!failed_ || failure_sent_))) return;
    if (regular) {
      notes_sent_at_ = driven_at_;
      ++beat_;
    }
    Note note = own_note();
    bool all_sent = true;
    for (int peer = 0; peer < size(); ++peer)
      if (peer != rank_ && !send_note(peer, note)) all_sent = false;
    failure_sent_ = all_sent && note.failed;
  }
  /// Calls drive(), unless the last call was a moment ago.
  void drive_now_and_then() {
    if (Clock::now() - driven_at_ >= short_while) drive();
  }
  /// The failures of other ranks, in the order in which their notes were read.
  const std::vector<Failure>& failures() const { return failures_; }
  /// Whether all notes have left, and a failure of this rank has been sent to all others.
  bool notes_have_left() {
    return failed_ == failure_sent_ && std::ranges::all_of(outbox_, [](Outgoing& outgoing) {
             return has_ended(outgoing.request);
           });
  }
  /// Sends nothing more, but listens.
  void fall_silent() { silent_ = true; }
  void stop_listening() {
    MPI_Cancel(&incoming_request_);
    MPI_Request_free(&incoming_request_);
  }

 private:
  using Clock = std::chrono::steady_clock;
  using Seconds = std::chrono::duration<double>;
  static constexpr int board_tag = last_channel + 1;
  static constexpr Seconds period{0.2};         // between two regular notes
  static constexpr Seconds short_while{0.001};  // between two calls of drive() by a busy rank

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

  void listen() {
    check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, board_tag, comm_,
                        &incoming_request_),
              "MPI_Irecv");
  }
  /// Reads one note that has come; false if there is none.
  bool read() {
    int flag = 0;
    MPI_Status status;
    check_mpi(MPI_Test(&incoming_request_, &flag, &status), "MPI_Test");
    if (!flag) return false;
    positions_[status.MPI_SOURCE] = incoming_.position;
    heard_[status.MPI_SOURCE] = driven_at_;
    if (incoming_.failed) failures_.push_back({status.MPI_SOURCE, incoming_.what});
    listen();
    return true;
  }
  Note own_note() {
    Note note;
    note.position = positions_[rank_];
    note.beat = beat_;
    std::lock_guard lock(mutex_);
    note.failed = failed_;
    std::copy(failure_.begin(), failure_.end(), note.what);
    return note;
  }
  /// Sends a note; false if the one before is still in flight to the peer.
  bool send_note(int peer, const Note& note) {
    Outgoing& out = outbox_[peer];
    if (out.note.beat == note.beat && out.note.failed == note.failed) return true;
    if (!has_ended(out.request)) return false;
    out.note = note;
    std::size_t bytes = offsetof(Note, what) + std::strlen(note.what) + 1;
    MPI_Isend(&out.note, static_cast<int>(bytes), MPI_BYTE, peer, board_tag, comm_, &out.request);
    return true;
  }

  MPI_Comm comm_;
  int rank_ = 0;
  std::vector<std::atomic<Position>> positions_;
  std::vector<std::atomic<Clock::time_point>> heard_;  // when, by rank
  std::mutex mutex_;                                   // guards failure_
  std::string failure_;
  std::atomic<bool> failed_ = false;

  MPI_Request incoming_request_ = MPI_REQUEST_NULL;
  Note incoming_;
  std::vector<Outgoing> outbox_;
  std::vector<Failure> failures_;
  int beat_ = 0;
  bool failure_sent_ = false, silent_ = false;
  Clock::time_point driven_at_, notes_sent_at_;
};

}  // namespace plangrad::parallel
