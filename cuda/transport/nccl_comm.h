// NcclComm: an NCCL communicator whose calls never wait; and NcclOrder: one order of the calls of
// NCCL for all ranks, which rank 0 gives.
// Not here: the calls themselves (nccl_transport.h).
// Chapter 13; NCCL user guide, fault tolerance; Sergeev and Del Balso 2018, "Horovod", whose rank 0
// orders sums.
#pragma once

#include <nccl.h>

#include <bitset>
#include <compare>
#include <deque>
#include <map>
#include <utility>

#include "cuda/launch/runtime.h"
#include "parallel/transports/launch.h"

namespace plangrad::cuda {

/// NCCL joins ranks, and connects them at the first call, which takes as long as the slowest rank.
/// So each call only begins here; a thread of NCCL's carries it out, and idle() tells when that is
/// done. A rank whose call has its place must call or abort, so that its peers never wait for one
/// that has given up.
class NcclComm {
 public:
  /// No rank has joined yet. `ranks`: of the run; `timeout`: seconds that a call may take to begin.
  NcclComm(std::vector<int> ranks, double timeout) : ranks_(std::move(ranks)), timeout_(timeout) {}
  /// Aborts, unless it has been ended.
  ~NcclComm() { abort(); }

  bool joined() const { return joined_; }
  /// Begins to join the others; this rank is member number `member`. The first rank to join makes
  /// the id, and tells the others.
  void join(const ncclUniqueId& id, int member);
  static ncclUniqueId make_id();

  void begun(const char* call, ncclResult_t result);
  /// Whether the last call has been carried out, so that its work is queued on the stream, and
  /// another call may begin. It stays false once NCCL says that another rank has aborted, whose
  /// report, which says why, is on its way.
  /// throws: Error if NCCL fails, or takes longer than the timeout
  bool idle();

  /// Ends the work that this rank has queued. It may wait for kernels of other communicators, which
  /// may be stuck as well: NcclTransport::abort_all ends them all at once.
  void abort();
  /// Ends it after a run without failure, in two steps, so that ranks may end several in any order.
  void finalize() noexcept;
  void destroy(const parallel::Deadline& deadline) noexcept;

  ncclComm_t get() const { return comm_; }
  /// The number of a rank among the ranks. throws: Error if it is not among them
  int member(int rank) const;

 private:
  void note(ncclResult_t result);
  std::string describe() const;

  const std::vector<int> ranks_;
  const double timeout_;
  ncclComm_t comm_ = nullptr;  // also after an abort
  bool joined_ = false, lost_ = false;
  const char* call_ = "";  // the last one
  std::optional<parallel::Deadline> deadline_;
};

/// Words about calls have channels of their own, above those of a plan's groups.
inline constexpr int asking = parallel::control_channel / 2, placing = asking + 1;

/// A message or a sum that all its ranks are ready to make.
struct NcclCall {
  static constexpr int most_ranks = 1024;
  /// Identifies a call among those that a rank makes at the same time.
  struct Key {
    int first = 0, last = -1;  ///< sender and receiver; or the first member of a sum, and -1
    int channel = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  Key key;
  std::int64_t sent = 0, expected = 0;  ///< bytes, as the two ends of a message have them
  std::bitset<most_ranks> ranks{};      ///< who makes the call
  ncclUniqueId id{};                    ///< the communicator's id, until its ranks have joined
};

/// A rank that knows that all ranks of a call are ready asks rank 0 to place it. Rank 0 takes what
/// it hears, one after the other, and tells the ranks of each call. Words between two ranks keep
/// their order, so any two calls have the same order on each rank that makes both.
class NcclOrder {
 public:
  /// throws: Error if there are too many ranks
  explicit NcclOrder(parallel::Transport& inner);

  void ask(const NcclCall& call);
  /// The next call of this rank; none if that is not known yet. On rank 0, also passes words on.
  std::optional<NcclCall> next();

 private:
  /// A word in flight; the request ends before the memory that it uses.
  struct Word {
    NcclCall call;
    std::unique_ptr<parallel::Request> request;
  };

  void say(int rank, int channel, const NcclCall& call);
  void hear(int rank);
  void place(const NcclCall& call);

  parallel::Transport& inner_;
  std::map<int, Word> heard_;  // by rank, the word that comes next
  std::deque<Word> said_;
  std::deque<NcclCall> placed_;  // this rank's
};

}  // namespace plangrad::cuda
