// Notes are small messages on a tag of their own, one at a time to each rank: a rank that is gone
// or slow takes no more memory than one note, and no rank waits for it.
// Chapter 04.
#if PLANGRAD_MPI
#include "parallel/transports/mpi_board.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "autograd/error.h"

namespace plangrad::parallel {
namespace {

using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr int board_tag = last_channel + 1;
constexpr Seconds period(0.2);         // between two regular notes
constexpr Seconds short_while(0.001);  // between two calls of drive() by a busy rank

}  // namespace

std::string mpi_error_text(int code) {
  char buffer[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, buffer, &length);
  return {buffer, static_cast<std::size_t>(length)};
}

void check_mpi(int code, const char* call) {
  PG_CHECK(code == MPI_SUCCESS, call, " failed: ", mpi_error_text(code));
}

bool has_ended(MPI_Request& request) {
  int flag = 1;
  return MPI_Test(&request, &flag, MPI_STATUS_IGNORE) != MPI_SUCCESS || flag;
}

MpiBoard::MpiBoard(MPI_Comm comm) : comm_(comm) {
  MPI_Comm_rank(comm, &rank_);
  int size = 0;
  MPI_Comm_size(comm, &size);
  positions_ = std::vector<std::atomic<Position>>(size);
  heard_ = std::vector<std::atomic<Clock::time_point>>(size);
  outbox_.resize(size);
  listen();
}

double MpiBoard::silence(int rank) const {
  if (rank == rank_) return 0;
  return Seconds(Clock::now() - heard_.at(rank).load()).count();
}

void MpiBoard::fail(const std::string& what) {
  {
    std::lock_guard lock(mutex_);
    if (failed_) return;
    failure_ = what.size() < sizeof Note::what ? what : what.substr(0, 1000) + " ...";
    failed_ = true;
  }
  wake();
}

void MpiBoard::drive() {
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

void MpiBoard::drive_now_and_then() {
  if (Clock::now() - driven_at_ >= short_while) drive();
}

bool MpiBoard::notes_have_left() {
  return failed_ == failure_sent_ &&
         std::all_of(outbox_.begin(), outbox_.end(),
                     [](Outgoing& outgoing) { return has_ended(outgoing.request); });
}

void MpiBoard::listen() {
  check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, board_tag, comm_,
                      &incoming_request_),
            "MPI_Irecv");
}

void MpiBoard::stop_listening() {
  MPI_Cancel(&incoming_request_);
  MPI_Request_free(&incoming_request_);
}

/// Reads one note that has come; false if there is none.
bool MpiBoard::read() {
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

MpiBoard::Note MpiBoard::own_note() {
  Note note;
  note.position = positions_[rank_];
  note.beat = beat_;
  std::lock_guard lock(mutex_);
  note.failed = failed_;
  std::copy(failure_.begin(), failure_.end(), note.what);
  return note;
}

/// Sends a note; false if the one before is still in flight to the peer.
bool MpiBoard::send_note(int peer, const Note& note) {
  Outgoing& out = outbox_[peer];
  if (out.note.beat == note.beat && out.note.failed == note.failed) return true;
  if (!has_ended(out.request)) return false;
  out.note = note;
  std::size_t bytes = offsetof(Note, what) + std::strlen(note.what) + 1;
  MPI_Isend(&out.note, static_cast<int>(bytes), MPI_BYTE, peer, board_tag, comm_, &out.request);
  return true;
}

}  // namespace plangrad::parallel
#endif
