// The first member hears of all others, and answers them.
// Chapter 13.
#include "cuda/transport/nccl_sum.h"

#include <algorithm>

namespace paragrad::cuda {

using autograd::DType;
using autograd::Tensor;
using autograd::text;

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

}  // namespace

NcclSum::NcclSum(NcclTransport& transport, const std::vector<int>& ranks, int channel,
                 const Tensor& x, NcclComm& comm)
    : NcclRequest(transport, {transport.rank(), channel, x.raw(), x.bytes()}, comm, false),
      ranks_(ranks),
      inner_(transport.inner()),
      member_(member_of(ranks, transport.rank())),
      own_{x.numel(), type_of(x)},
      offered_(ranks.size(), own_) {
  const int first = ranks_[0];
  if (member_ > 0) {
    requests_.push_back(inner_.send({first, channel, &offered_[member_], sizeof own_}));
    requests_.push_back(inner_.receive({first, answers + channel, &id_, sizeof id_}));
  } else {
    for (std::size_t i = 1; i < ranks_.size(); ++i)
      requests_.push_back(inner_.receive({ranks_[i], channel, &offered_[i], sizeof own_}));
  }
}

// [snippet sum]
bool NcclSum::advance() {
  if (!all_done()) return false;
  if (number_ < 0) {
    if (member_ == 0) let_all_begin();
    if (!comm_.joined()) comm_.join(id_, member_);
    number_ = comm_.numbered++;
  }
  return is_through() && all_done();
}
// [end snippet]

/// By the first member.
void NcclSum::let_all_begin() {
  for (std::size_t i = 1; i < ranks_.size(); ++i)
    PG_CHECK(offered_[i] == own_, describe(ranks_[i], offered_[i]), ", but ",
             describe(ranks_[0], own_), "; both must run the same plan");
  if (!comm_.joined()) id_ = NcclComm::make_id();
  requests_.clear();
  for (std::size_t i = 1; i < ranks_.size(); ++i)
    requests_.push_back(inner_.send({ranks_[i], answers + message_.channel, &id_, sizeof id_}));
}

bool NcclSum::all_done() const {
  return std::all_of(requests_.begin(), requests_.end(),
                     [](const auto& request) { return request->done(); });
}

std::string NcclSum::describe(int rank, const Offer& offer) const {
  return text("rank ", rank, " sums up ", offer.count, " values of ",
              offer.type == ncclFloat32 ? "f32" : "bf16", " on channel ", message_.channel);
}

void NcclSum::call() {
  comm_.begun(
      "ncclAllReduce",
      ncclAllReduce(message_.data, message_.data, static_cast<std::size_t>(own_.count),
                    static_cast<ncclDataType_t>(own_.type), ncclSum, comm_.get(), comm_.stream()));
}

}  // namespace paragrad::cuda
