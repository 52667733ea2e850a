// NcclTransport: messages of device memory straight from GPU to GPU, by ncclSend and ncclRecv, and
// sums by NCCL's own all-reduce (nccl_sum.cpp).
// Not here: messages of host memory, positions and failures, which the transport below carries:
// threads, or MPI, over which ranks also agree on what they are about to call.
// Chapter 13; NCCL user guide, point-to-point communication.
#pragma once

#include <algorithm>

#include "autograd/tensor.h"
#include "cuda/transport/nccl_comm.h"
#include "cuda/transport/staged_transport.h"
#include "parallel/transports/transport.h"

namespace paragrad::cuda {

/// A message begins with an offer from sender to receiver, over the transport below. The receiver
/// answers once it wants the message; then both ends call NCCL. So nothing waits on a GPU for a
/// rank that is late or lost, both ends know if they disagree on the size, and a message that is
/// given up before it has begun leaves no trace. A message of a rank to itself is staged. Each
/// piece of a collective is such a message; all_reduce has one handshake for the whole sum.
///
/// NCCL carries out the operations of a communicator one after the other, and a send lasts until it
/// is received. If ranks shared a communicator, two of them could each wait for an operation that
/// the other has queued second. So every ordered pair of ranks with messages has a communicator,
/// made with the first of them; the receiver, which starts each message, numbers them, so that both
/// ends queue them in one order.
class NcclTransport : public StagedTransport {
 public:
  /// Each rank needs a device of its own. A call that NCCL has not begun after half of `timeout`
  /// seconds is an error that says so, before other ranks wait that long in vain.
  NcclTransport(Transport& inner, CudaBackend& backend, double timeout);
  ~NcclTransport() override;

  const char* name() const override { return "nccl"; }

  /// Ends all queued work for good, as the run has failed.
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

/// Answers have channels of their own, above those of a plan's groups.
inline constexpr int answers = parallel::control_channel / 2;

/// The messages that ranks exchange before they call NCCL, over the transport below. It is the last
/// member of its request: it must end before the memory that it sends and receives.
class Handshake {
 public:
  explicit Handshake(Transport& transport) : transport_(transport) {}

  template <class T>
  void tell(int rank, int channel, const T& value) {  // a message to send is only read
    requests_.push_back(transport_.send({rank, channel, const_cast<T*>(&value), sizeof value}));
  }
  template <class T>
  void hear(int rank, int channel, T& value) {
    requests_.push_back(transport_.receive({rank, channel, &value, sizeof value}));
  }
  /// Whether all has been sent and received.
  bool done() const {
    return std::ranges::all_of(requests_, [](const auto& each) { return each->done(); });
  }

 private:
  Transport& transport_;
  std::vector<std::unique_ptr<Request>> requests_;
};

/// The common part of messages and sums by NCCL: a call, once it is its turn, and its end.
class NcclRequest : public DeviceRequest {
 public:
  NcclRequest(NcclTransport& transport, const Message& message, NcclComm& comm, bool receives)
      : DeviceRequest(transport, message, receives), nccl_(transport), comm_(comm) {
    PG_CHECK(message.channel < answers, "nccl: channel ", message.channel,
             "; messages of devices have channels below ", answers);
  }
  /// Aborts an unfinished call: NCCL must not use the memory any more, and others must not wait.
  ~NcclRequest() override {
    if (number_ >= 0 && !over_) nccl_.abort_all();
  }

 protected:
  /// Calls NCCL, and passes the result to comm_.begun().
  virtual void call() = 0;

  // [snippet turn]
  /// Makes the call once it has a number and its turn has come, behind the kernels that were queued
  /// before the request; true once the call's work is done. The event must stand behind what NCCL
  /// queues, so the turn passes on with it.
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

  NcclTransport& nccl_;
  NcclComm& comm_;
  std::int64_t number_ = -1;  ///< of the call; -1: none yet

 private:
  Event through_;
  bool called_ = false, queued_ = false, over_ = false;
};

/// Sums x over the group `ranks`, which are comm's, in place (nccl_sum.cpp).
std::unique_ptr<Request> nccl_sum(NcclTransport& transport, const std::vector<int>& ranks,
                                  int channel, const autograd::Tensor& x, NcclComm& comm);

}  // namespace paragrad::cuda
