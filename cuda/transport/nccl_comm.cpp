// Nothing here waits except abort() and the end of destroy(). Each word about the order has one
// size, so that a receive for the next one can always be posted. Chapter 13.
#include "cuda/transport/nccl_comm.h"

#include <fmt/ranges.h>

namespace plangrad::cuda {

constexpr const char* advice =
    "; NCCL_DEBUG=INFO says what NCCL does, and NCCL_SOCKET_IFNAME names the network interface "
    "that it is to use";

std::string NcclComm::describe() const {
  return fmt::format("{} of ranks {}", call_, fmt::join(ranks_, ", "));
}

int NcclComm::member(int rank) const {
  const auto found = std::ranges::find(ranks_, rank);
  PG_CHECK(found != ranks_.end(), "rank ", rank,
           " is no member of the group that it calls NCCL with");
  return static_cast<int>(found - ranks_.begin());
}

ncclUniqueId NcclComm::make_id() {
  ncclUniqueId id;
  const ncclResult_t result = ncclGetUniqueId(&id);
  PG_CHECK(result == ncclSuccess, "ncclGetUniqueId: ", ncclGetErrorString(result), advice);
  return id;
}

void NcclComm::join(const ncclUniqueId& id, int member) {
  joined_ = true;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  const int members = static_cast<int>(ranks_.size());
  begun("ncclCommInitRankConfig", ncclCommInitRankConfig(&comm_, members, id, member, &config));
}

void NcclComm::begun(const char* call, ncclResult_t result) {
  call_ = call;
  deadline_.emplace(timeout_);
  note(result);
}

bool NcclComm::idle() {
  if (!comm_ || lost_) return false;
  ncclResult_t state = ncclSuccess;
  note(ncclCommGetAsyncError(comm_, &state));
  note(state);
  if (state == ncclInProgress)
    PG_CHECK(deadline_->left() > 0, describe(), ": still in progress after ", timeout_, " s",
             advice);
  return !lost_ && state == ncclSuccess;
}

void NcclComm::note(ncclResult_t result) {
  lost_ = lost_ || result == ncclRemoteError;
  PG_CHECK(lost_ || result == ncclSuccess || result == ncclInProgress, describe(), ": ",
           ncclGetErrorString(result), advice);
}

void NcclComm::abort() {
  if (comm_) ncclCommAbort(comm_);
  comm_ = nullptr;
}

void NcclComm::finalize() noexcept {
  if (!comm_) return;
  const ncclResult_t result = ncclCommFinalize(comm_);
  if (result != ncclSuccess && result != ncclInProgress) abort();
}

void NcclComm::destroy(const parallel::Deadline& deadline) noexcept {
  if (!comm_) return;
  ncclResult_t state = ncclInProgress;
  while (ncclCommGetAsyncError(comm_, &state) == ncclSuccess && state == ncclInProgress &&
         deadline.left() > 0)
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (state != ncclSuccess) return abort();
  ncclCommDestroy(comm_);
  comm_ = nullptr;
}

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
