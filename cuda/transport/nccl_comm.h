// NcclComm: an NCCL communicator whose calls never wait.
// Not here: when ranks call it (nccl_transport.h).
// Chapter 13; NCCL user guide, fault tolerance.
#pragma once

#include <nccl.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

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

  /// Notes that a call has begun, with this result.
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
  /// The number of a rank among the ranks.
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

}  // namespace plangrad::cuda
