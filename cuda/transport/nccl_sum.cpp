// A group's sum by ncclAllReduce, on a communicator and a stream of the group. The first member
// hears from all others, and answers them.
// Not here: sums that are made of messages (parallel/collectives/collective.h).
// Chapter 13; NCCL user guide, collective operations.
#include <algorithm>

#include "cuda/transport/nccl_transport.h"

namespace paragrad::cuda {

namespace {

ncclDataType_t type_of(const Tensor& x) {
  PG_CHECK(x.dtype() == DType::f32 || x.dtype() == DType::bf16, "NCCL sums up f32 and bf16, not ",
           x);
  return x.dtype() == DType::f32 ? ncclFloat32 : ncclBfloat16;
}

int member_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  PG_CHECK(found != ranks.end(), "rank ", rank, " is no member of the group that it sums up with");
  return static_cast<int>(found - ranks.begin());
}

/// A sum begins when each member has told the first one, over the transport below, how much it
/// adds; the first member then lets all of them call NCCL. So no GPU begins to wait for a rank that
/// is late or lost, and all members know that they sum up the same. Sums of several groups can be
/// on a device at a time, in a different order on each: this needs a stream for each group, room
/// for NCCL's kernels side by side, which take a small part of a GPU, and no wait for the whole
/// device. If one of these is missing, the deadline of each wait reports it.
class NcclSum : public NcclRequest {
 public:
  NcclSum(NcclTransport& transport, const std::vector<int>& ranks, int channel, const Tensor& x,
          NcclComm& comm)
      : NcclRequest(transport, {transport.rank(), channel, x.raw(), x.bytes()}, comm, false),
        ranks_(ranks),
        member_(member_of(ranks, transport.rank())),
        own_{x.numel(), type_of(x)},
        offered_(ranks.size(), own_) {
    if (member_ > 0) {
      handshake_.tell(ranks_[0], channel, own_);
      handshake_.hear(ranks_[0], answers + channel, id_);
    } else {
      for (std::size_t i = 1; i < ranks_.size(); ++i)
        handshake_.hear(ranks_[i], channel, offered_[i]);
    }
  }

 protected:
  // [snippet sum]
  bool advance() override {
    if (!handshake_.done()) return false;
    if (number_ < 0) {
      if (member_ == 0) let_all_begin();
      if (!comm_.joined()) comm_.join(id_, member_);
      number_ = comm_.numbered++;
    }
    return is_through() && handshake_.done();
  }
  // [end snippet]

  void call() override {
    comm_.begun("ncclAllReduce",
                ncclAllReduce(message_.data, message_.data, static_cast<std::size_t>(own_.count),
                              static_cast<ncclDataType_t>(own_.type), ncclSum, comm_.get(),
                              comm_.stream()));
  }

 private:
  struct Offer {
    std::int64_t count = 0, type = 0;
    friend bool operator==(const Offer&, const Offer&) = default;
  };

  std::string describe(int rank, const Offer& offer) const {
    return autograd::text("rank ", rank, " sums up ", offer.count, " values of ",
                          offer.type == ncclFloat32 ? "f32" : "bf16", " on channel ",
                          message_.channel);
  }

  /// Lets all members call NCCL; only the first member runs it.
  void let_all_begin() {
    for (std::size_t i = 1; i < ranks_.size(); ++i)
      PG_CHECK(offered_[i] == own_, describe(ranks_[i], offered_[i]), ", but ",
               describe(ranks_[0], own_), "; both must run the same plan");
    if (!comm_.joined()) id_ = NcclComm::make_id();
    for (std::size_t i = 1; i < ranks_.size(); ++i)
      handshake_.tell(ranks_[i], answers + message_.channel, id_);
  }

  const std::vector<int> ranks_;
  const int member_;
  const Offer own_;
  std::vector<Offer> offered_;  // the first member's, by member
  ncclUniqueId id_{};           // of the group's communicator, until that is made
  Handshake handshake_{nccl_.inner()};
};

}  // namespace

std::unique_ptr<Request> nccl_sum(NcclTransport& transport, const std::vector<int>& ranks,
                                  int channel, const Tensor& x, NcclComm& comm) {
  return std::make_unique<NcclSum>(transport, ranks, channel, x, comm);
}

}  // namespace paragrad::cuda
