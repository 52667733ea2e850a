// Nothing here waits except abort() and the end of destroy().
// Chapter 13.
#include "cuda/transport/nccl_comm.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <thread>

namespace plangrad::cuda {

namespace {

constexpr const char* advice =
    "; NCCL_DEBUG=INFO says what NCCL does, and NCCL_SOCKET_IFNAME names the network interface "
    "that it is to use";

}  // namespace

std::string NcclComm::describe() const {
  return fmt::format("{} of ranks {}", call_, fmt::join(ranks_, ", "));
}

int NcclComm::member(int rank) const {
  return static_cast<int>(std::ranges::find(ranks_, rank) - ranks_.begin());
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

}  // namespace plangrad::cuda
