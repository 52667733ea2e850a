// A group's sum by ncclAllReduce. The first member hears from all others, and has the call placed.
// Not here: sums that are made of messages (parallel/collectives/collective.h).
// Chapter 13; NCCL user guide, collective operations.
#include <algorithm>

#include "cuda/transport/nccl_transport.h"

namespace paragrad::cuda {

namespace {

int member_of(const std::vector<int>& ranks, int rank) {
  const auto found = std::find(ranks.begin(), ranks.end(), rank);
  PG_CHECK(found != ranks.end(), "rank ", rank, " is no member of the group that it sums up with");
  return static_cast<int>(found - ranks.begin());
}

/// A sum is placed when each member has told the first one, over the transport below, how much it
/// adds. So no GPU begins to wait for a rank that is late or lost, and all members know that they
/// sum up the same.
class NcclSum : public NcclRequest {
 public:
  NcclSum(NcclTransport& transport, const std::vector<int>& ranks, const Message& message,
          DType dtype, NcclComm& comm)
      : NcclRequest(transport, message, comm, {ranks.at(0), -1, message.channel}),
        ranks_(ranks),
        member_(member_of(ranks, transport.rank())),
        own_{message.bytes / size_of(dtype), dtype == DType::f32 ? ncclFloat32 : ncclBfloat16},
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
    comm_.begun("ncclAllReduce",
                ncclAllReduce(message_.data, message_.data, static_cast<std::size_t>(own_.count),
                              static_cast<ncclDataType_t>(own_.type), ncclSum, comm_.get(),
                              nccl_.stream()));
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

std::unique_ptr<Request> nccl_sum(NcclTransport& transport, const std::vector<int>& ranks,
                                  const Message& message, DType dtype, NcclComm& comm) {
  return std::make_unique<NcclSum>(transport, ranks, message, dtype, comm);
}

}  // namespace paragrad::cuda
