// Communicators: how ranks find each other, and how they part.
// Not here: their calls (nccl_calls.cpp).
// NCCL user guide, communicators.
#include <algorithm>
#include <chrono>
#include <cstring>

#include "autograd/error.h"
#include "cuda/emulator/communicator.h"
#include "cuda/emulator/peers.h"
#include "cuda/emulator/report.h"
#include "cuda/emulator/runtime.h"

using namespace plangrad::cuda::emulator;
using plangrad::autograd::text;

namespace {

/// Communicators that still wait for ranks, by what their ids hold.
struct Open {
  std::mutex mutex;
  std::map<int, std::shared_ptr<Clique>> cliques;
  int ids = 0;
};
Open& open_cliques() {
  static Open instance;
  return instance;
}

/// The clique of the id, which this rank's arrival may begin. Null: it does not fit the others.
std::shared_ptr<Clique> join(int id, int ranks, int rank, int device) {
  std::lock_guard lock(open_cliques().mutex);
  std::shared_ptr<Clique>& entry = open_cliques().cliques[id];
  if (!entry) {
    entry = std::make_shared<Clique>();
    entry->devices.assign(ranks, -1);
  }
  std::shared_ptr<Clique> clique = entry;
  std::lock_guard lock_clique(clique->mutex);
  std::vector<int>& devices = clique->devices;
  if (int(devices.size()) != ranks || devices[rank] != -1) return nullptr;
  if (std::find(devices.begin(), devices.end(), device) != devices.end()) {
    report(text("ncclCommInitRank: rank ", rank, " is on device ", device,
                ", which another rank has; each needs its own"));
    return nullptr;
  }
  devices[rank] = device;
  if (++clique->joined == ranks) {
    open_cliques().cliques.erase(id);
    make_peers(devices);
  }
  clique->changed.notify_all();
  return clique;
}

}  // namespace

namespace plangrad::cuda::emulator {

ncclResult_t wait_for_ranks(ncclComm_t comm) {
  Clique& clique = *comm->clique;
  std::unique_lock lock(clique.mutex);
  std::chrono::duration<double> patience(settings().patience);
  auto complete = [&] { return clique.joined == int(clique.devices.size()); };
  if (clique.changed.wait_for(lock, patience, complete)) return ncclSuccess;
  report(text("ncclCommInitRank: ", clique.joined, " of ", clique.devices.size(),
              " ranks have come in ", settings().patience, " seconds"));
  return ncclSystemError;
}

}  // namespace plangrad::cuda::emulator

/// Returns the version that the emulator is modelled on.
ncclResult_t ncclGetVersion(int* version) {
  *version = 22809;
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess: return "no error";
    case ncclUnhandledCudaError: return "unhandled cuda error";
    case ncclSystemError: return "unhandled system error";
    case ncclInternalError: return "internal error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "NCCL operation in progress";
  }
  return "unknown result code";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard lock(open_cliques().mutex);
  *id = {};
  int number = ++open_cliques().ids;
  std::memcpy(id->internal, &number, sizeof number);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank) {
  ncclConfig_t config;
  return ncclCommInitRankConfig(comm, nranks, id, rank, &config);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int nranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  if (rank < 0 || rank >= nranks) return ncclInvalidArgument;
  int number;
  std::memcpy(&number, id.internal, sizeof number);
  if (wait_for_peers() != cudaSuccess) return ncclUnhandledCudaError;  // as it allocates memory
  std::shared_ptr<Clique> clique = join(number, nranks, rank, current_device());
  if (!clique) return ncclInvalidUsage;
  *comm = new ncclComm{clique, rank, current_device()};
  (*comm)->blocking = config->blocking;
  if (!config->blocking) return ncclInProgress;
  return join_in_group(*comm) ? ncclSuccess : wait_for_ranks(*comm);
}

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int ndev, const int* devlist) {
  int before = current_device();
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclGroupStart();
  ncclResult_t result = ncclSuccess;
  for (int i = 0; i < ndev && result == ncclSuccess; ++i) {
    bool exists = cudaSetDevice(devlist ? devlist[i] : i) == cudaSuccess;
    result = exists ? ncclCommInitRank(&comms[i], ndev, id, i) : ncclInvalidArgument;
  }
  ncclResult_t end = ncclGroupEnd();
  cudaSetDevice(before);
  return result == ncclSuccess ? end : result;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  queue_waiting(comm);
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  delete comm;
  return ncclSuccess;
}

/// Once the others see the abort, none of their operations with this rank can run any more.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  withdraw(comm->device, comm->clique.get());
  {
    std::lock_guard lock(comm->clique->mutex);
    comm->clique->aborted = true;
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Clique& clique = *comm->clique;
  std::unique_lock lock(clique.mutex);
  const bool complete = clique.joined == int(clique.devices.size());
  *error = clique.aborted ? ncclRemoteError : ncclInProgress;
  if (clique.aborted || !complete) return ncclSuccess;
  lock.unlock();
  queue_waiting(comm);
  *error = comm->error;
  return ncclSuccess;
}

ncclResult_t ncclCommCount(ncclComm_t comm, int* count) {
  *count = int(comm->clique->devices.size());
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(ncclComm_t comm, int* rank) {
  *rank = comm->rank;
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(ncclComm_t comm, int* device) {
  *device = comm->device;
  return ncclSuccess;
}
