// NcclSum: a group's sum by ncclAllReduce, on a communicator and a stream of the group.
// Not here: sums that are made of messages (parallel/collectives/collective.h).
// Chapter 13; NCCL user guide, collective operations.
#pragma once

#include "autograd/tensor.h"
#include "cuda/transport/nccl_request.h"

namespace paragrad::cuda {

/// A sum begins when each member has told the first one, over the transport below, how much it
/// adds; then that one lets all of them call NCCL. So no rank's GPU begins to wait for one that is
/// late or lost, and all members know of each other that they sum up the same. Sums of several
/// groups can be on a device at a time, and not in one order on all: that relies on a stream for
/// each, on room for NCCL's kernels beside each other, which take a small part of a GPU, and on
/// nothing that waits for the whole device. Where that fails, the deadline of each wait reports it.
class NcclSum : public NcclRequest {
 public:
  /// `ranks` are comm's; x is summed up in place.
  NcclSum(NcclTransport& transport, const std::vector<int>& ranks, int channel,
          const autograd::Tensor& x, NcclComm& comm);

 protected:
  bool advance() override;
  void call() override;

 private:
  struct Offer {
    std::int64_t count = 0, type = 0;
    friend bool operator==(const Offer&, const Offer&) = default;
  };
  std::string describe(int rank, const Offer& offer) const;
  void let_all_begin();
  bool all_done() const;

  const std::vector<int> ranks_;
  Transport& inner_;
  const int member_;
  const Offer own_;
  std::vector<Offer> offered_;  // the first member's, by member
  ncclUniqueId id_{};           // of the group's communicator, if that is not made yet
  std::vector<std::unique_ptr<Request>> requests_;
};

}  // namespace paragrad::cuda
