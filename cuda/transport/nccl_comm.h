// NcclComm: a communicator of NCCL whose calls never wait, and the stream on which it works.
// Not here: what ranks agree on before they call it (nccl_transport.h, nccl_sum.cpp).
// Chapter 13; NCCL user guide, fault tolerance.
#pragma once

#include <nccl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cuda/launch/runtime.h"
#include "parallel/transports/launch.h"

namespace paragrad::cuda {

/// NCCL joins ranks, and at the first call connects them, which takes as long as the slowest rank.
/// So each call is only begun, a thread of NCCL's carries it out, and idle() tells when it has;
/// what the call does, it does on the stream, in the order of calls.
/// Calls have numbers, in one order for all ranks. A rank that has taken a number must call, or
/// abort; so its peers never wait for one that has given up.
class NcclComm {
 public:
  /// Nobody has joined it. `ranks`: of the run; `timeout`: seconds that a call may take to begin.
  NcclComm(std::vector<int> ranks, double timeout) : ranks_(std::move(ranks)), timeout_(timeout) {}
  /// Aborts, unless it has been ended.
  ~NcclComm() { abort(); }

  bool joined() const { return joined_; }
  /// Begins to join the others; this rank is member number `member`. The first to join makes the
  /// id, and tells the others.
  void join(const ncclUniqueId& id, int member);
  static ncclUniqueId make_id();

  /// A call was begun, with this result.
  void begun(const char* call, ncclResult_t result);
  /// Whether the last call has been carried out, so that its work is queued on the stream, and
  /// there may be another. Never again once NCCL says that another rank has aborted: its report,
  /// which says why, is on its way.
  /// throws: Error if NCCL fails, or takes longer than the timeout
  bool idle();

  /// Ends what this rank has queued. It may wait for kernels of other communicators, which may be
  /// stuck as well: NcclTransport::abort_all has all of them end at once.
  void abort();
  /// At a good end, in two steps, so that ranks may end several in any order.
  void finalize() noexcept;
  void destroy(const parallel::Deadline& deadline) noexcept;

  ncclComm_t get() const { return comm_; }
  const Stream& stream() const { return stream_; }

  std::int64_t numbered = 0;  ///< numbers that were given to calls
  std::int64_t next = 0;      ///< whose turn it is

 private:
  void note(ncclResult_t result);
  std::string describe() const;

  const std::vector<int> ranks_;
  const double timeout_;
  Stream stream_;
  ncclComm_t comm_ = nullptr;  // also after an abort
  bool joined_ = false, lost_ = false;
  const char* call_ = "";  // the last one
  std::optional<parallel::Deadline> deadline_;
};

}  // namespace paragrad::cuda
