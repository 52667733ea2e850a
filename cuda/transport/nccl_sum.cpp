// A group's sum or gather by NCCL's collectives. The first member hears from all others, and has
// the call placed. Not here: those that are made of messages (parallel/collectives/collective.h).
// Chapter 13; NCCL user guide, collective operations.
#include "cuda/transport/nccl_transport.h"
#include "parallel/collectives/collective.h"

namespace plangrad::cuda {

using parallel::chunk_range;
using parallel::Range;

namespace {

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

std::unique_ptr<Request> nccl_sum(NcclTransport& transport, Joint what,
                                  const std::vector<int>& ranks, const Message& message,
                                  DType dtype, NcclComm& comm) {
  return std::make_unique<NcclSum>(transport, what, ranks, message, dtype, comm);
}

}  // namespace plangrad::cuda
