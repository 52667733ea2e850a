// NcclTransport: messages of device memory straight from GPU to GPU, by ncclSend and ncclRecv, and
// sums by NCCL's own all-reduce (nccl_sum.h).
// Not here: messages of host memory, positions and failures, which the transport below carries:
// threads, or MPI, over which ranks also agree on what they are about to call.
// Chapter 13; NCCL user guide, point-to-point communication.
#pragma once

#include <nccl.h>

#include "cuda/transport/nccl_comm.h"
#include "cuda/transport/staged_transport.h"

namespace paragrad::cuda {

/// A message begins with an offer from sender to receiver, over the transport below; the receiver's
/// answer, once it wants the message, lets both ends call NCCL. So nothing waits on a GPU for a
/// rank that is late or lost, both ends know if they disagree on the size, and a message that is
/// given up before it has begun leaves no trace. What a rank sends to itself is staged. Each piece
/// of a collective is such a message; all_reduce has one handshake for the whole sum.
///
/// NCCL carries the operations of a communicator out one after the other, and a send lasts until it
/// is received. If ranks shared a communicator, two of them could each wait for what the other one
/// has queued second. So there is one for every ordered pair that has messages, made with the first
/// of them; and the receiver, who starts each message, numbers them, so that both ends queue them
/// in one order.
class NcclTransport : public StagedTransport {
 public:
  /// Each rank on a device of its own. What NCCL has not begun after half of `timeout` seconds is
  /// an error that says so, before others wait in vain for as long as that.
  NcclTransport(Transport& inner, CudaBackend& backend, double timeout);
  ~NcclTransport() override;

  const char* name() const override { return "nccl"; }

  /// Ends all that is queued, once and for all: the run has failed.
  void abort_all() noexcept;

  std::unique_ptr<Request> all_reduce(const std::vector<int>& ranks, int channel,
                                      const autograd::Tensor& x) override;

 protected:
  std::unique_ptr<Request> send_from_device(const Message& message) override;
  std::unique_ptr<Request> receive_on_device(const Message& message) override;

 private:
  static constexpr int messages = -1;  // in place of a group's channel
  NcclComm& comm(int channel, const std::vector<int>& ranks);

  const double timeout_;
  std::map<std::pair<int, std::vector<int>>, NcclComm> comms_;  // of messages: sender, receiver
};

}  // namespace paragrad::cuda
