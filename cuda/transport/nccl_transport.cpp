// The two ends of a message. A communicator's first rank sends, its second one receives.
// Chapter 13.
#include "cuda/transport/nccl_transport.h"

#include <exception>

namespace paragrad::cuda {

namespace {

struct Answer {
  std::int64_t bytes = 0, number = 0;  ///< -1: the sizes differ
  ncclUniqueId id{};                   ///< with number 0: of the pair's communicator
};

void check_sizes(const Message& message, int from, std::int64_t sent, int to,
                 std::int64_t expected) {
  PG_CHECK(sent == expected, "rank ", from, " sent ", sent, " bytes on channel ", message.channel,
           ", but rank ", to, " expects ", expected, "; both must run the same plan");
}

class NcclSend : public NcclRequest {
 public:
  NcclSend(NcclTransport& transport, const Message& message, NcclComm& line)
      : NcclRequest(transport, message, line, false) {
    handshake_.tell(message.peer, message.channel, message_.bytes);
    handshake_.hear(message.peer, answers + message.channel, answer_);
  }

 protected:
  bool advance() override {
    if (number_ < 0) {
      if (!handshake_.done()) return false;
      check_sizes(message_, nccl_.rank(), message_.bytes, message_.peer, answer_.bytes);
      number_ = answer_.number;
      if (number_ == 0) comm_.join(answer_.id, 0);
    }
    return is_through();
  }
  void call() override {
    comm_.begun("ncclSend", ncclSend(message_.data, static_cast<std::size_t>(message_.bytes),
                                     ncclUint8, 1, comm_.get(), comm_.stream()));
  }

 private:
  Answer answer_;
  Handshake handshake_{nccl_.inner()};
};

class NcclReceive : public NcclRequest {
 public:
  NcclReceive(NcclTransport& transport, const Message& message, NcclComm& line)
      : NcclRequest(transport, message, line, true) {
    handshake_.hear(message.peer, message.channel, offered_);
  }

 protected:
  bool advance() override {
    if (!answered_) {
      if (!may_begin() || !handshake_.done()) return false;
      begin();
      answer();
    }
    return handshake_.done() && is_through();
  }
  void call() override {
    comm_.begun("ncclRecv", ncclRecv(message_.data, static_cast<std::size_t>(message_.bytes),
                                     ncclUint8, 0, comm_.get(), comm_.stream()));
  }

 private:
  // [snippet answer]
  void answer() {
    if (offered_ == message_.bytes) number_ = comm_.numbered++;
    answer_ = {message_.bytes, number_};
    if (number_ == 0) comm_.join(answer_.id = NcclComm::make_id(), 1);
    handshake_.tell(message_.peer, answers + message_.channel, answer_);
    answered_ = true;
    check_sizes(message_, message_.peer, offered_, nccl_.rank(), message_.bytes);
  }
  // [end snippet]

  std::int64_t offered_ = 0;
  bool answered_ = false;
  Answer answer_;
  Handshake handshake_{nccl_.inner()};
};

}  // namespace

NcclTransport::NcclTransport(Transport& inner, CudaBackend& backend, double timeout)
    : StagedTransport(inner, backend), timeout_(timeout) {
  int version = 0;
  ncclGetVersion(&version);
  PG_CHECK(version >= 22700, "--transport nccl: this is NCCL ", version / 10000, '.',
           version / 100 % 100,
           ", and calls that don't wait need 2.27 or later; use a newer one, or "
           "--transport threads or mpi");
}

NcclTransport::~NcclTransport() {
  if (std::uncaught_exceptions() > 0 || failure()) {
    abort_all();
    return;
  }
  const parallel::Deadline deadline(timeout_);
  for (auto& [ranks, comm] : comms_) comm.finalize();
  for (auto& [ranks, comm] : comms_) comm.destroy(deadline);
}

void NcclTransport::abort_all() noexcept {
  ncclGroupStart();
  for (auto& [ranks, comm] : comms_) comm.abort();
  ncclGroupEnd();
}

std::unique_ptr<Transport> make_nccl_transport(Transport& inner, CudaBackend& backend,
                                               double timeout) {
  return std::make_unique<NcclTransport>(inner, backend, timeout);
}

NcclComm& NcclTransport::comm(int channel, const std::vector<int>& ranks) {
  return comms_.try_emplace({channel, ranks}, ranks, timeout_ / 2).first->second;
}

std::unique_ptr<Request> NcclTransport::send_from_device(const Message& message) {
  if (message.peer == rank()) return StagedTransport::send_from_device(message);
  return std::make_unique<NcclSend>(*this, message, comm(messages, {rank(), message.peer}));
}

std::unique_ptr<Request> NcclTransport::receive_on_device(const Message& message) {
  if (message.peer == rank()) return StagedTransport::receive_on_device(message);
  return std::make_unique<NcclReceive>(*this, message, comm(messages, {message.peer, rank()}));
}

std::unique_ptr<Request> NcclTransport::all_reduce(const std::vector<int>& ranks, int channel,
                                                   const autograd::Tensor& x) {
  PG_CHECK(is_on_device({rank(), channel, x.raw(), x.bytes()}), "rank ", rank(),
           ": NCCL sums up memory of its device, not ", x, " of the host");
  return nccl_sum(*this, ranks, channel, x, comm(channel, ranks));
}

}  // namespace paragrad::cuda
