// NcclRequest: what messages and sums by NCCL share: a call, once it is its turn, and its end.
// Not here: how ranks agree on it before (nccl_transport.cpp, nccl_sum.cpp).
// Chapter 13.
#pragma once

#include "cuda/transport/nccl_comm.h"
#include "cuda/transport/nccl_transport.h"
#include "parallel/transports/channels.h"

namespace paragrad::cuda {

/// Answers have channels of their own, above those of a plan's groups.
inline constexpr int answers = parallel::control_channel / 2;

class NcclRequest : public DeviceRequest {
 public:
  NcclRequest(NcclTransport& transport, const Message& message, NcclComm& comm, bool receives)
      : DeviceRequest(transport, message, receives), comm_(comm), nccl_(transport) {
    PG_CHECK(message.channel < answers, "nccl: channel ", message.channel,
             "; messages of devices have channels below ", answers);
  }
  /// NCCL must not use the memory any more once the request is gone, and others not wait for it.
  ~NcclRequest() override {
    if (number_ >= 0 && !over_) nccl_.abort_all();
  }

 protected:
  /// Calls NCCL, by comm_.begun().
  virtual void call() = 0;

  // [snippet turn]
  /// Once it has a number: calls behind the kernels that were queued before the request, and tells
  /// when that is through. The event must stand behind what NCCL queues, so the turn passes on
  /// with it.
  bool is_through() {
    if (!called_) {
      if (number_ != comm_.next || !comm_.idle()) return false;
      ready_.hold(comm_.stream());
      call();
      called_ = true;
    }
    if (!comm_.idle()) return false;
    if (!queued_) {
      through_.record(comm_.stream());
      ++comm_.next;
      queued_ = true;
    }
    return over_ = through_.reached();
  }
  // [end snippet]

  NcclComm& comm_;
  std::int64_t number_ = -1;  ///< of the call; none so far

 private:
  NcclTransport& nccl_;
  Event through_;
  bool called_ = false, queued_ = false, over_ = false;
};

}  // namespace paragrad::cuda
