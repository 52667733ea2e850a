// NcclTransport: messages of device memory straight from GPU to GPU, by ncclSend and ncclRecv.
// Not here: messages of host memory, positions and failures, which the transport below carries:
// threads, or MPI, over which NCCL's communicators are made, too.
// Chapter 04; NCCL user guide, point-to-point communication.
#pragma once

#include <nccl.h>

#include "cuda/staged_transport.h"

namespace paragrad::cuda {

/// What goes from one rank to another: a communicator of these two, and a stream.
///
/// NCCL carries the operations of a communicator out one after the other, and a send lasts until it
/// is received. If ranks shared a communicator, two of them could each wait for what the other one
/// has queued second. So there is one for every ordered pair; and the receiver, who starts each
/// message, numbers them, so that both ends queue them in one order.
struct NcclLine {
  ncclComm_t comm = nullptr;  ///< null: one of the two has given up, and nothing passes any more
  std::unique_ptr<Stream> stream;
  std::int64_t next = 0;  ///< number of the next message

  /// Ends all that is queued, here and at the other end.
  void abort();
};

/// A message begins with an offer from sender to receiver, over the transport below; the receiver's
/// answer, once it wants the message, lets both ends call NCCL. So nothing waits on a GPU for a
/// rank that is late or lost, both ends know if they disagree on the size, and a message that is
/// given up before it has begun leaves no trace. What a rank sends to itself is staged.
class NcclTransport : public StagedTransport {
 public:
  /// All ranks make it together, each on a device of its own.
  /// throws: Error if NCCL refuses, as it does two ranks on one device, or a rank takes longer than
  ///         `timeout` seconds
  NcclTransport(Transport& inner, CudaBackend& backend, double timeout);
  ~NcclTransport() override;

  const char* name() const override { return "nccl"; }

  /// Messages of this rank to `peer`, and of `peer` to this rank.
  NcclLine& line_to(int peer) { return lines_.at({rank(), peer}); }
  NcclLine& line_from(int peer) { return lines_.at({peer, rank()}); }

 protected:
  std::unique_ptr<Request> send_from_device(const Message& message) override;
  std::unique_ptr<Request> receive_on_device(const Message& message) override;

 private:
  std::map<std::pair<int, int>, NcclLine> lines_;  // by sender and receiver
};

}  // namespace paragrad::cuda
