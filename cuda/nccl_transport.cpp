// Making the lines, and the two ends of a message. The first of a line's two ranks sends.
// Chapter 04.
#include "cuda/nccl_transport.h"

#include <cstring>
#include <exception>

#include "parallel/transports/channels.h"
#include "parallel/transports/launch.h"

namespace paragrad::cuda {

using autograd::text;

namespace {

/// Answers have channels of their own, above those of a plan's groups.
constexpr int answers = parallel::control_channel / 2;

struct Answer {
  std::int64_t bytes = 0, number = 0;
};

void check_nccl(ncclResult_t result, const char* call) {
  PG_CHECK(result == ncclSuccess, call, ": ", ncclGetErrorString(result));
}

/// What both ends share: the call of NCCL, and when it is through.
class NcclRequest : public DeviceRequest {
 public:
  NcclRequest(NcclTransport& transport, const Message& message, NcclLine& line, bool receives)
      : DeviceRequest(transport, message, receives), line_(line), rank_(transport.rank()) {
    PG_CHECK(message.channel < answers, "nccl: channel ", message.channel,
             "; messages of devices have channels below ", answers);
  }
  /// NCCL must not use the memory any more once the request is gone.
  ~NcclRequest() override {
    if (called_ && !over_) line_.abort();
  }

 protected:
  /// Calls NCCL, behind the kernels that were queued before the message.
  void call(bool receives) {
    const auto bytes = static_cast<std::size_t>(message_.bytes);
    const Stream& stream = *line_.stream;
    called_ = true;
    if (!line_.comm) return;
    ready_.hold(stream);
    note(receives ? ncclRecv(message_.data, bytes, ncclUint8, 0, line_.comm, stream)
                  : ncclSend(message_.data, bytes, ncclUint8, 1, line_.comm, stream),
         receives ? "ncclRecv" : "ncclSend");
    through_.record(stream);
  }
  /// Never, if the other rank has given up: its report, which says why, is on its way.
  bool is_over() {
    if (over_ || !line_.comm) return over_;
    ncclResult_t state = ncclSuccess;
    check_nccl(ncclCommGetAsyncError(line_.comm, &state), "ncclCommGetAsyncError");
    note(state, "NCCL");
    return over_ = line_.comm && through_.reached();
  }
  void note(ncclResult_t result, const char* call) {
    if (result == ncclRemoteError) return line_.abort();
    check_nccl(result, call);
  }
  void check_sizes(int from, std::int64_t sent, int to, std::int64_t expected) const {
    PG_CHECK(sent == expected, "rank ", from, " sent ", sent, " bytes on channel ",
             message_.channel, ", but rank ", to, " expects ", expected,
             "; both must run the same plan");
  }

  NcclLine& line_;
  const int rank_;
  Answer answer_;
  bool called_ = false;

 private:
  Event through_;
  bool over_ = false;
};

class NcclSend : public NcclRequest {
 public:
  NcclSend(NcclTransport& transport, const Message& message)
      : NcclRequest(transport, message, transport.line_to(message.peer), false),
        bytes_(message.bytes) {
    Transport& inner = transport.inner();
    const auto [peer, channel, data, bytes] = message;
    offer_ = inner.send({peer, channel, &bytes_, sizeof bytes_});
    answering_ = inner.receive({peer, answers + channel, &answer_, sizeof answer_});
  }

 protected:
  bool advance() override {
    if (!called_) {
      if (!offer_->done() || !answering_->done()) return false;
      check_sizes(rank_, bytes_, message_.peer, answer_.bytes);
      if (answer_.number != line_.next) return false;
      ++line_.next;
      call(false);
    }
    return is_over();
  }

 private:
  std::int64_t bytes_;
  std::unique_ptr<Request> offer_, answering_;
};

class NcclReceive : public NcclRequest {
 public:
  NcclReceive(NcclTransport& transport, const Message& message)
      : NcclRequest(transport, message, transport.line_from(message.peer), true),
        inner_(transport.inner()) {
    offering_ = inner_.receive({message.peer, message.channel, &offered_, sizeof offered_});
  }

 protected:
  bool advance() override {
    if (!called_) {
      if (!may_begin() || !offering_->done()) return false;
      begin();
      const bool agreed = offered_ == message_.bytes;
      answer_ = {message_.bytes, agreed ? line_.next++ : -1};
      answering_ =
          inner_.send({message_.peer, answers + message_.channel, &answer_, sizeof answer_});
      check_sizes(message_.peer, offered_, rank_, message_.bytes);
      call(true);
    }
    return answering_->done() && is_over();
  }

 private:
  Transport& inner_;
  std::int64_t offered_ = 0;
  std::unique_ptr<Request> offering_, answering_;
};

}  // namespace

void NcclLine::abort() {
  if (comm) ncclCommAbort(comm);
  comm = nullptr;
}

/// Every rank makes its lines in the one order that all have, or two could wait for each other.
/// Ids are made by receivers.
NcclTransport::NcclTransport(Transport& inner, CudaBackend& backend, double timeout)
    : StagedTransport(inner, backend) {
  std::string own(size() * sizeof(ncclUniqueId), '\0');
  for (int from = 0; from < size(); ++from) {
    ncclUniqueId id;
    check_nccl(ncclGetUniqueId(&id), "ncclGetUniqueId");
    std::memcpy(own.data() + from * sizeof id, &id, sizeof id);
  }
  const std::vector<std::string> ids = parallel::all_gather_bytes(inner, own, timeout);
  for (int from = 0; from < size(); ++from)
    for (int to = 0; to < size(); ++to) {
      if (from == to || (rank() != from && rank() != to)) continue;
      NcclLine& line = lines_[{from, to}];
      line.stream = std::make_unique<Stream>();
      ncclUniqueId id;
      std::memcpy(&id, ids[to].data() + from * sizeof id, sizeof id);
      check_nccl(ncclCommInitRank(&line.comm, 2, id, rank() == to), "ncclCommInitRank");
    }
}

/// After a failure, ncclCommDestroy could wait for a rank that is gone.
NcclTransport::~NcclTransport() {
  const bool failed = std::uncaught_exceptions() > 0 || failure();
  for (auto& [ranks, line] : lines_)
    if (failed)
      line.abort();
    else if (line.comm)
      ncclCommDestroy(line.comm);
}

std::unique_ptr<Transport> make_nccl_transport(Transport& inner, CudaBackend& backend,
                                               double timeout) {
  return std::make_unique<NcclTransport>(inner, backend, timeout);
}

std::unique_ptr<Request> NcclTransport::send_from_device(const Message& message) {
  if (message.peer == rank()) return StagedTransport::send_from_device(message);
  return std::make_unique<NcclSend>(*this, message);
}

std::unique_ptr<Request> NcclTransport::receive_on_device(const Message& message) {
  if (message.peer == rank()) return StagedTransport::receive_on_device(message);
  return std::make_unique<NcclReceive>(*this, message);
}

}  // namespace paragrad::cuda
