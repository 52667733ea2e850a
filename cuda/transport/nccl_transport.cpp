// The two ends of a message: a communicator's first rank sends, its second one receives. And a
// group's sum or gather by NCCL's collectives: the first member hears from all others, and has the
// call placed. Not here: sums that are made of messages (parallel/collectives/collective.h).
// Chapter 13; NCCL user guide, collective operations.
#include "cuda/transport/nccl_transport.h"

#include <fmt/ranges.h>
#include <unistd.h>

#include "parallel/collectives/collective.h"
#include "parallel/transports/launch.h"

namespace plangrad::cuda {

using parallel::chunk_range;
using parallel::Range;

namespace {

constexpr int connecting = asking - 1;  // a channel; no plan has so many groups

class NcclMessage : public NcclRequest {
 public:
  NcclMessage(NcclTransport& transport, const Message& message, NcclCall::Key key, NcclComm& comm)
      : NcclRequest(transport, message, comm, key), receives_(key.last == transport.rank()) {
    if (receives_) {
      handshake_.hear(message.peer, message.channel, offered_);
    } else {
      transport.expect(*this);
      handshake_.tell(message.peer, message.channel, message_.bytes);
    }
  }

 protected:
  bool advance() override {
    if (receives_ && !asked_ && may_begin() && handshake_.done()) accept();
    const bool through = is_through();
    PG_CHECK(call_.sent == call_.expected, "rank ", key().first, " sent ", call_.sent,
             " bytes on channel ", message_.channel, ", but rank ", key().last, " expects ",
             call_.expected, "; both must run the same plan");
    return through;
  }
  void call() override {
    const std::size_t bytes = static_cast<std::size_t>(message_.bytes);
    const int peer = comm_.member(message_.peer);
    const cudaStream_t stream = nccl_.stream();
    if (receives_)
      comm_.begun("ncclRecv", ncclRecv(message_.data, bytes, ncclUint8, peer, comm_.get(), stream));
    else
      comm_.begun("ncclSend", ncclSend(message_.data, bytes, ncclUint8, peer, comm_.get(), stream));
  }

 private:
  void accept() {
    begin();
    nccl_.expect(*this);
    ask({message_.peer, nccl_.rank()}, offered_, message_.bytes);
    asked_ = true;
  }

  const bool receives_;
  std::int64_t offered_ = 0;
  bool asked_ = false;
  Handshake handshake_{nccl_.inner()};
};

/// A call is placed when each member has told the first one, over the transport below, what it is
/// about to call. So no GPU begins to wait for a rank that is late or lost, and all members know
/// that they call the same.
class NcclSum : public NcclRequest {
 public:
  NcclSum(NcclTransport& transport, Joint what, const std::vector<int>& ranks,
          const Message& message, DType dtype, NcclComm& comm)
      : NcclRequest(transport, message, comm, {ranks.at(0), -1, message.channel}),
        ranks_(ranks),
        member_(comm.member(transport.rank())),
        own_{what, dtype, message.bytes / size_of(dtype)},
        offered_(ranks.size(), own_) {
    transport.expect(*this);
    if (member_ > 0) handshake_.tell(ranks_[0], message.channel, own_);
    if (member_ == 0)
      for (std::size_t i = 1; i < ranks_.size(); ++i)
        handshake_.hear(ranks_[i], message.channel, offered_[i]);
  }

 protected:
  // [snippet sum]
  bool advance() override {
    if (member_ == 0 && !asked_ && handshake_.done()) {
      check_offers();
      ask(ranks_, 0, 0);
      asked_ = true;
    }
    return is_through() && handshake_.done();
  }
  // [end snippet]

  void call() override {
    const Part all = part({0, own_.count});
    const cudaStream_t stream = nccl_.stream();
    if (own_.what == Joint::all_reduce)
      return comm_.begun("ncclAllReduce", ncclAllReduce(all.data, all.data, all.count, type(),
                                                        ncclSum, comm_.get(), stream));
    if (own_.count % members() != 0) return call_for_each_chunk();
    const Part own = part(chunk_range(own_.count, member_, members()));
    if (own_.what == Joint::reduce_scatter)
      comm_.begun("ncclReduceScatter", ncclReduceScatter(all.data, own.data, own.count, type(),
                                                         ncclSum, comm_.get(), stream));
    else
      comm_.begun("ncclAllGather",
                  ncclAllGather(own.data, all.data, own.count, type(), comm_.get(), stream));
  }

 private:
  struct Offer {
    Joint what = Joint::all_reduce;
    DType dtype = DType::f32;
    std::int64_t count = 0;
    friend bool operator==(const Offer&, const Offer&) = default;
  };
  struct Part {
    void* data;
    std::size_t count;
  };

  int members() const { return static_cast<int>(ranks_.size()); }
  ncclDataType_t type() const { return own_.dtype == DType::f32 ? ncclFloat32 : ncclBfloat16; }
  Part part(Range range) const {
    return {static_cast<std::byte*>(message_.data) + range.begin * size_of(own_.dtype),
            static_cast<std::size_t>(range.size())};
  }

  // [snippet uneven]
  /// Makes a call for each chunk, as their sizes differ. In a group they are one operation.
  void call_for_each_chunk() {
    const bool sums = own_.what == Joint::reduce_scatter;
    const cudaStream_t stream = nccl_.stream();
    ncclGroupStart();
    for (int root = 0; root < members(); ++root) {
      const auto [data, count] = part(chunk_range(own_.count, root, members()));
      if (count == 0) continue;
      if (sums)
        ncclReduce(data, data, count, type(), ncclSum, root, comm_.get(), stream);
      else
        ncclBroadcast(data, data, count, type(), root, comm_.get(), stream);
    }
    comm_.begun(sums ? "ncclReduce of chunks" : "ncclBroadcast of chunks", ncclGroupEnd());
  }
  // [end snippet]

  std::string describe(int rank, const Offer& offer) const {
    const char* verb = offer.what == Joint::all_reduce       ? " sums up "
                       : offer.what == Joint::reduce_scatter ? " sums up by chunks "
                                                             : " gathers ";
    return autograd::text("rank ", rank, verb, offer.count, " values of ", offer.dtype,
                          " on channel ", message_.channel);
  }

  /// Only the first member runs it.
  void check_offers() const {
    for (std::size_t i = 1; i < ranks_.size(); ++i)
      PG_CHECK(offered_[i] == own_, describe(ranks_[i], offered_[i]), ", but ",
               describe(ranks_[0], own_), "; both must run the same plan");
  }

  const std::vector<int> ranks_;
  const int member_;
  const Offer own_;
  std::vector<Offer> offered_;  // the first member's, by member
  bool asked_ = false;
  Handshake handshake_{nccl_.inner()};
};

}  // namespace

NcclTransport::NcclTransport(Transport& inner, CudaBackend& backend, double timeout)
    : StagedTransport(inner, backend), timeout_(timeout), order_(inner) {
  int version = 0;
  ncclGetVersion(&version);
  PG_CHECK(version >= 22700, "--transport nccl: this is NCCL ", version / 10000, '.',
           version / 100 % 100,
           ", and calls that don't wait need 2.27 or later; use a newer one, or "
           "--transport threads or mpi");
  char bus[32];
  PG_CUDA(cudaDeviceGetPCIBusId(bus, sizeof bus, backend.ordinal()));
  check_own_device(autograd::text("device ", bus, " of ", parallel::host_name()));
  backend.reserve_staging();
}

/// Checks that each rank has a device of its own. Opens this one's memory to ranks of this process.
void NcclTransport::check_own_device(const std::string& own) {
  const std::string process = autograd::text(parallel::host_name(), ' ', getpid());
  const auto all = parallel::all_gather_bytes(*this, autograd::text(process, '\n', own), timeout_);
  std::map<std::string, int> owners;
  for (const std::string& told : all) {
    const auto end = told.find('\n');
    const int rank = static_cast<int>(&told - all.data());
    const auto [owner, is_first] = owners.emplace(told.substr(end + 1), rank);
    if (!is_first)
      throw parallel::SharedError(autograd::text(
          "--transport nccl: each rank needs a device of its own; ranks ", owner->second, " and ",
          rank, " both use ", owner->first, ". Start fewer ranks on a host, give each its own by ",
          "CUDA_VISIBLE_DEVICES, or use --transport mpi, whose ranks can share one"));
    if (rank != this->rank() && told.substr(0, end) == process)
      backend().allocator().open_to_peers();
  }
}

NcclTransport::~NcclTransport() {
  if (std::uncaught_exceptions() > 0 || failure() || !all_have_finished()) {
    abort_all();
    return;
  }
  const parallel::Deadline deadline(timeout_);
  for (auto& [ranks, comm] : comms_) comm.finalize();
  for (auto& [ranks, comm] : comms_) comm.destroy(deadline);
}

/// Waits for all ranks, as until then rank 0 has calls to place. False if one has failed.
bool NcclTransport::all_have_finished() noexcept try {
  parallel::all_gather_bytes(*this, "", timeout_);
  return true;
} catch (...) {
  return false;
}

void NcclTransport::abort_all() noexcept {
  ncclGroupStart();
  for (auto& [ranks, comm] : comms_) comm.abort();
  ncclGroupEnd();
  placed_.clear();
}

std::unique_ptr<Transport> make_nccl_transport(Transport& inner, CudaBackend& backend,
                                               double timeout) {
  return std::make_unique<NcclTransport>(inner, backend, timeout);
}

void NcclTransport::wait(double seconds) {
  backend().use();
  make_calls();
  StagedTransport::wait(seconds);
}

// ---- calls ----

void NcclTransport::expect(NcclRequest& request) { expecting_[request.key()].push_back(&request); }

void NcclTransport::forget(NcclRequest& request) {
  if (const auto found = expecting_.find(request.key()); found != expecting_.end())
    std::erase(found->second, &request);
  std::erase(placed_, &request);
}

// [snippet calls]
void NcclTransport::make_calls() {
  while (const std::optional<NcclCall> call = order_.next()) {
    std::deque<NcclRequest*>& requests = expecting_[call->key];
    if (requests.empty()) {  // it was given up, and the others must not wait for it
      abort_all();
      continue;
    }
    if (requests.front()->place(*call)) placed_.push_back(requests.front());
    requests.pop_front();
  }
  while (!placed_.empty() && placed_.front()->queue()) placed_.pop_front();
}
// [end snippet]

// ---- communicators ----

NcclComm& NcclTransport::comm(std::vector<int> ranks) {
  std::ranges::sort(ranks);
  return comms_.try_emplace(ranks, ranks, timeout_ / 2).first->second;
}

// [snippet prepare]
/// After each connection all ranks meet, so that nothing is queued anywhere when the next is made.
void NcclTransport::prepare(const parallel::Connections& wanted) {
  for (const std::vector<int>& ranks : wanted.sums) connect(ranks, true);
  for (const std::vector<int>& ends : wanted.messages) connect(ends, false);
}

void NcclTransport::connect(const std::vector<int>& ranks, bool sums) {
  if (ranks.size() < 2 || !connected_.emplace(ranks, sums).second) return;
  if (std::ranges::find(ranks, rank()) != ranks.end()) {
    auto free = [this](void* data) { backend().free(data, sizeof(float)); };
    const std::unique_ptr<void, decltype(free)> number(backend().allocate(sizeof(float)), free);
    backend().set_bytes(number.get(), 0, sizeof(float));
    const Message one{sums || rank() == ranks[1] ? ranks[0] : ranks[1], connecting, number.get(),
                      sizeof(float)};
    const auto request = sums ? std::make_unique<NcclSum>(*this, Joint::all_reduce, ranks, one,
                                                          DType::f32, comm(ranks))
                         : rank() == ranks[0] ? send(one)
                                              : receive(one);
    wait_for(*this, *request, timeout_,
             fmt::format("NCCL to connect ranks {}", fmt::join(ranks, ", ")));
  }
  parallel::all_gather_bytes(*this, "", timeout_);
}
// [end snippet]

std::unique_ptr<Request> NcclTransport::send_from_device(const Message& message) {
  if (message.peer == rank()) return StagedTransport::send_from_device(message);
  const NcclCall::Key key{rank(), message.peer, message.channel};
  return std::make_unique<NcclMessage>(*this, message, key, comm({rank(), message.peer}));
}

std::unique_ptr<Request> NcclTransport::receive_on_device(const Message& message) {
  if (message.peer == rank()) return StagedTransport::receive_on_device(message);
  const NcclCall::Key key{message.peer, rank(), message.channel};
  return std::make_unique<NcclMessage>(*this, message, key, comm({message.peer, rank()}));
}

std::unique_ptr<Request> NcclTransport::together(Joint what, const std::vector<int>& ranks,
                                                 int channel, const autograd::Tensor& x,
                                                 const Mark& after) {
  const Message values{rank(), channel, x.raw(), x.bytes(), after};
  PG_CHECK(is_on_device(values), "rank ", rank(), ": NCCL sums up memory of its device, not ", x,
           " of the host");
  PG_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::bf16,
           "NCCL sums up and gathers f32 and bf16, not ", x);
  PG_CHECK(std::ranges::is_sorted(ranks), "rank ", rank(), ": the ranks of a group ascend, as ",
           "NCCL counts members so; they are ", fmt::format("{}", fmt::join(ranks, ", ")));
  return std::make_unique<NcclSum>(*this, what, ranks, values, x.dtype(), comm(ranks));
}

}  // namespace plangrad::cuda
