// Each word has one size, so that a receive for the next one can always be posted.
// Chapter 13.
#include "cuda/transport/nccl_order.h"

#include <utility>

#include "autograd/error.h"

namespace plangrad::cuda {

NcclOrder::NcclOrder(parallel::Transport& inner) : inner_(inner) {
  PG_CHECK(inner.size() <= NcclCall::most_ranks, "--transport nccl: ", inner.size(),
           " ranks; it takes up to ", NcclCall::most_ranks, "; use fewer, or --transport mpi");
  if (inner.rank() != 0)
    hear(0);
  else
    for (int rank = 1; rank < inner.size(); ++rank) hear(rank);
}

void NcclOrder::hear(int rank) {
  Word& word = heard_[rank];
  word.request = nullptr;  // it has used the memory
  word.request = inner_.receive({rank, rank == 0 ? placing : asking, &word.call, sizeof word.call});
}

void NcclOrder::say(int rank, int channel, const NcclCall& call) {
  Word& word = said_.emplace_back(call, nullptr);
  word.request = inner_.send({rank, channel, &word.call, sizeof word.call});
}

void NcclOrder::ask(const NcclCall& call) {
  if (inner_.rank() == 0)
    place(call);
  else
    say(0, asking, call);
}

// [snippet place]
/// Tells the ranks of a call that it comes next; only rank 0 runs it.
void NcclOrder::place(const NcclCall& call) {
  for (int rank = 0; rank < inner_.size(); ++rank)
    if (call.ranks[rank]) rank == 0 ? placed_.push_back(call) : say(rank, placing, call);
}
// [end snippet]

std::optional<NcclCall> NcclOrder::next() {
  while (!said_.empty() && said_.front().request->done()) said_.pop_front();
  for (auto& [rank, word] : heard_)
    while (word.request->done()) {
      const NcclCall call = word.call;
      hear(rank);
      inner_.rank() == 0 ? place(call) : placed_.push_back(call);
    }
  if (placed_.empty()) return {};
  const NcclCall call = placed_.front();
  placed_.pop_front();
  return call;
}

}  // namespace plangrad::cuda
