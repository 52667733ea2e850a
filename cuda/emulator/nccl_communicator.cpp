// Communicators: how ranks find each other and how they part, and what collectives and messages do
// to the buffers of all their ranks: each result is computed once and copied.
// Not here: calls, which meet in groups (nccl_calls.cpp).
// NCCL user guide, communicators and collective operations.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "autograd/error.h"
#include "cuda/emulator/communicator.h"
#include "cuda/emulator/cuda_bf16.h"
#include "cuda/emulator/emulator.h"
#include "cuda/emulator/observer.h"
#include "cuda/emulator/runtime.h"

using namespace plangrad::cuda::emulator;
using plangrad::autograd::text;

namespace {

/// Communicators that still wait for ranks, by what their ids hold.
struct Open {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Clique>> cliques;
  int ids = 0;
};
Open& open_cliques() {
  static Open instance;
  return instance;
}

/// The clique of the id, which this rank's arrival may begin. Null: it does not fit the others.
std::shared_ptr<Clique> join(const std::string& id, int ranks, int rank, int device) {
  if (ranks > 1 && settings().devices == 1) return join_processes(id, ranks, rank);
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
  text("nccl-emulated-", getpid(), '-', ++open_cliques().ids).copy(id->internal, sizeof *id - 1);
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
  if (wait_for_peers() != cudaSuccess) return ncclUnhandledCudaError;  // as it allocates memory
  std::shared_ptr<Clique> clique = join(id.internal, nranks, rank, current_device());
  if (!clique) return ncclInvalidUsage;
  *comm = new ncclComm{clique, rank, current_device()};
  (*comm)->blocking = config->blocking;
  if (!config->blocking) return ncclInProgress;
  if (!clique->folder.empty()) return ncclInvalidUsage;  // not emulated
  return join_in_group(*comm) ? ncclSuccess : wait_for_ranks(*comm);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  queue_waiting(comm);
  return comm->blocking ? ncclSuccess : ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  leave_processes(*comm->clique, comm->rank, false);
  delete comm;
  return ncclSuccess;
}

/// Once the others see the abort, none of their operations with this rank can run any more.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  withdraw(comm->device, comm->clique.get());
  const bool told = !happens(settings().silent_aborts);
  leave_processes(*comm->clique, comm->rank, told);
  {
    std::lock_guard lock(comm->clique->mutex);
    comm->clique->aborted |= told;
  }
  delete comm;
  return ncclSuccess;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  Clique& clique = *comm->clique;
  std::unique_lock lock(clique.mutex);
  look_around(clique);
  const bool complete = clique.joined == int(clique.devices.size());
  *error = clique.aborted ? ncclRemoteError : ncclInProgress;
  if (clique.aborted || !complete) return ncclSuccess;
  lock.unlock();
  queue_waiting(comm);
  *error = comm->error;
  return ncclSuccess;
}

namespace plangrad::cuda::emulator {

namespace {

using Bytes = std::vector<std::byte>;

/// Elements [first, first + count) of all ranks, summed in the order of ranks, and rounded once.
template <class T, class Widen, class Narrow>
Bytes sum_as(const std::vector<Call>& calls, std::size_t first, Widen widen, Narrow narrow) {
  const std::size_t count = calls[0].count;
  Bytes result(count * sizeof(T));
  std::vector<float> sums(count);
  for (const Call& call : calls) {
    const T* source = static_cast<const T*>(call.source) + first;
    note(source, result.size(), reading);
    for (std::size_t i = 0; i < count; ++i)
      sums[i] = &call == &calls[0] ? widen(source[i]) : sums[i] + widen(source[i]);
  }
  std::transform(sums.begin(), sums.end(), reinterpret_cast<T*>(result.data()), narrow);
  return result;
}

Bytes sum_of(const std::vector<Call>& calls, std::size_t first) {
  auto same = [](float x) { return x; };
  return calls[0].type == ncclFloat32
             ? sum_as<float>(calls, first, same, same)
             : sum_as<__nv_bfloat16>(calls, first, __bfloat162float, __float2bfloat16);
}

void copy(void* to, const void* from, std::size_t bytes) {
  if (to == from || bytes == 0) return;
  std::memcpy(to, from, bytes);
  note_copy(to, from, bytes);
}

}  // namespace

int bytes_of(ncclDataType_t type) { return type == ncclUint8 ? 1 : type == ncclBfloat16 ? 2 : 4; }

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::all_reduce: return "ncclAllReduce";
    case Kind::reduce: return "ncclReduce";
    case Kind::reduce_scatter: return "ncclReduceScatter";
    case Kind::broadcast: return "ncclBroadcast";
    case Kind::all_gather: return "ncclAllGather";
    case Kind::send: return "ncclSend";
    case Kind::receive: return "ncclRecv";
  }
  return "";
}

void run_together(const std::vector<Call>& calls) {
  const Call& first = calls[0];
  std::size_t bytes = first.count * bytes_of(first.type);
  switch (first.kind) {
    case Kind::all_reduce: {
      Bytes sum = sum_of(calls, 0);
      for (const Call& call : calls) copy(call.target, sum.data(), bytes);
      break;
    }
    case Kind::reduce: copy(calls[first.peer].target, sum_of(calls, 0).data(), bytes); break;
    case Kind::reduce_scatter:
      for (std::size_t r = 0; r < calls.size(); ++r)
        copy(calls[r].target, sum_of(calls, r * first.count).data(), bytes);
      break;
    case Kind::broadcast:
      for (const Call& call : calls) copy(call.target, calls[first.peer].source, bytes);
      break;
    case Kind::all_gather:
      for (std::size_t r = 0; r < calls.size(); ++r)
        for (const Call& call : calls)
          copy(static_cast<std::byte*>(call.target) + r * bytes, calls[r].source, bytes);
      break;
    case Kind::send:
    case Kind::receive: copy(calls[1].target, first.source, bytes); break;
  }
}

}  // namespace plangrad::cuda::emulator
