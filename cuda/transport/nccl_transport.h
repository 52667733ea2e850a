// NcclTransport: messages of device memory straight from GPU to GPU, by ncclSend and ncclRecv, and
// sums and gathers by NCCL's own collectives.
// Not here: messages of host memory, positions and failures, which the transport below carries:
// threads, or MPI, over which ranks also agree on what they are about to call.
// Chapter 13; NCCL user guide, point-to-point communication.
#pragma once

#include "autograd/tensor.h"
#include "cuda/transport/nccl_comm.h"
#include "cuda/transport/staged_transport.h"

namespace plangrad::cuda {

class NcclRequest;

/// A message begins with an offer from sender to receiver, over the transport below. Once the
/// receiver wants the message, it has the call placed in the order of all ranks' calls
/// (nccl_comm.h); then both ends make it. So nothing waits on a GPU for a rank that is late or
/// lost, both ends know if they disagree on the size, and a message that is given up before the
/// receiver wants it leaves no trace. A message of a rank to itself is staged. Each piece of a
/// collective is such a message; together() is one call for the whole sum or gather.
///
/// Why can no two calls wait for each other? Each rank queues its calls on one stream, in the one
/// order, and waits for nothing but kernels that were queued before it asked, which wait for no
/// message. So the first call of the order that is not done can always proceed: all its ranks are
/// ready, and all calls before it are done. NCCL need not carry out two calls of a device at a
/// time, nor has a device to have a hardware queue for each communicator. There is one of these for
/// each two ranks that have messages, and for each set of ranks that has sums.
class NcclTransport : public StagedTransport {
 public:
  /// All ranks make theirs together, each with a device of its own. A call that NCCL has not begun
  /// after half of `timeout` seconds is an error that says so, before other ranks wait that long in
  /// vain.
  /// throws: SharedError if two ranks have one device
  NcclTransport(Transport& inner, CudaBackend& backend, double timeout);
  /// Waits for all ranks, unless one has failed.
  ~NcclTransport() override;

  const char* name() const override { return "nccl"; }
  std::int64_t piece_bytes() const override { return 8 << 20; }
  void wait(double seconds) override;

  /// Makes the communicators, one at a time, each with its first call, in which NCCL connects the
  /// ranks: this allocates memory, which may wait for other devices, so nothing else may be queued.
  void prepare(const parallel::Connections& wanted) override;

  /// Ends all queued work for good, as the run has failed.
  void abort_all() noexcept;

  std::unique_ptr<Request> together(Joint what, const std::vector<int>& ranks, int channel,
                                    const autograd::Tensor& x, const Mark& after) override;

  // ---- for requests ----
  const Stream& stream() const { return stream_; }
  NcclOrder& order() { return order_; }
  /// Notes that the request's call is going to be placed.
  void expect(NcclRequest& request);
  void forget(NcclRequest& request);
  /// Makes the calls whose turn has come.
  void make_calls();

 protected:
  std::unique_ptr<Request> send_from_device(const Message& message) override;
  std::unique_ptr<Request> receive_on_device(const Message& message) override;

 private:
  void check_own_device(const std::string& own);
  bool all_have_finished() noexcept;
  NcclComm& comm(std::vector<int> ranks);
  void connect(const std::vector<int>& ranks, bool sums);

  const double timeout_;
  Stream stream_{Stream::urgent};
  NcclOrder order_;
  std::map<std::vector<int>, NcclComm> comms_;  // by the ranks, in their order
  std::map<NcclCall::Key, std::deque<NcclRequest*>> expecting_;
  std::deque<NcclRequest*> placed_;
  std::set<std::pair<std::vector<int>, bool>> connected_;  // of all ranks; for sums
};

/// The messages that ranks exchange before they have a call placed, over the transport below. It is
/// the last member of its request: it must end before the memory that it sends and receives.
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
  NcclRequest(NcclTransport& transport, const Message& message, NcclComm& comm, NcclCall::Key key)
      : DeviceRequest(transport, message, key.last == transport.rank()),
        nccl_(transport),
        comm_(comm),
        key_(key) {
    PG_CHECK(message.channel < asking, "nccl: channel ", message.channel,
             "; messages of devices have channels below ", asking);
  }
  /// Aborts an unfinished call: NCCL must not use the memory any more, and others must not wait.
  ~NcclRequest() override {
    nccl_.forget(*this);
    if (placed_ && !over_) nccl_.abort_all();
  }

  const NcclCall::Key& key() const { return key_; }
  /// Learns that the call has its place. Returns whether it can be made: both ends agree.
  bool place(const NcclCall& call) {
    call_ = call;
    return placed_ = call.sent == call.expected;
  }

  // [snippet turn]
  /// Makes the call, as its turn has come, behind the kernels that were queued before the request;
  /// true once NCCL has queued its work, and an event behind that.
  bool queue() {
    if (!comm_.joined()) comm_.join(call_.id, comm_.member(nccl_.rank()));
    if (!comm_.idle()) return false;
    if (!called_) {
      hold(nccl_.stream());
      call();
      called_ = true;
    }
    if (!comm_.idle()) return false;
    through_.record(nccl_.stream());
    return queued_ = true;
  }
  // [end snippet]

 protected:
  /// Calls NCCL, and passes the result to comm_.begun().
  virtual void call() = 0;
  /// Has the call placed among those of all ranks, as all its ranks are ready.
  void ask(const std::vector<int>& ranks, std::int64_t sent, std::int64_t expected) {
    NcclCall asked{key_, sent, expected};
    for (int rank : ranks) asked.ranks.set(static_cast<std::size_t>(rank));
    if (!comm_.joined()) asked.id = NcclComm::make_id();
    nccl_.order().ask(asked);
  }
  /// Whether the call's work is done.
  bool is_through() {
    nccl_.make_calls();
    return over_ = over_ || (queued_ && through_.reached());
  }

  NcclTransport& nccl_;
  NcclComm& comm_;
  NcclCall call_;  ///< once it is placed

 private:
  const NcclCall::Key key_;
  Event through_;
  bool placed_ = false, called_ = false, queued_ = false, over_ = false;
};

}  // namespace plangrad::cuda
