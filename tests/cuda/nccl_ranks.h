// Ranks of NCCL for tests: threads, each with a device and a stream.
#pragma once

#include <nccl.h>

#include "autograd/error.h"
#include "cuda/launch/device.h"
#include "tests/cuda/machine.h"
#include "tests/in_threads.h"

namespace plangrad::tests {

inline __global__ void add_one(float* x) { *x += 1; }

/// throws: Error if a call of NCCL has another result
inline void check(ncclResult_t result, ncclResult_t expected = ncclSuccess) {
  PG_CHECK(result == expected, "NCCL: expected ", expected, ", got ", ncclGetErrorString(result));
}

/// A rank of a communicator, with a stream on the device that has the rank's number.
struct Rank {
  int rank, ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

/// A communicator of the first devices, which this thread makes for all ranks.
inline std::vector<ncclComm_t> make_comms(int ranks) {
  std::vector<ncclComm_t> comms(ranks);
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  check(ncclGroupStart());
  for (int rank = 0; rank < ranks; ++rank) {
    PG_CUDA(cudaSetDevice(rank));
    check(ncclCommInitRank(&comms[rank], ranks, id, rank));
  }
  check(ncclGroupEnd());
  PG_CUDA(cudaSetDevice(0));
  return comms;
}

/// body(rank) in a thread for each rank.
template <class Body>
void on_ranks(int ranks, Body&& body) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  in_threads(ranks, [&](int rank) {
    PG_CUDA(cudaSetDevice(rank));
    Rank me{rank, ranks, nullptr, nullptr};
    check(ncclCommInitRank(&me.comm, ranks, id, rank));
    PG_CUDA(cudaStreamCreateWithFlags(&me.stream, cudaStreamNonBlocking));
    body(me);
    PG_CUDA(cudaStreamDestroy(me.stream));
    if (me.comm) check(ncclCommDestroy(me.comm));
  });
}

/// The values of an array once the rank's stream is done.
template <class T>
std::vector<T> after(const Rank& me, const DeviceArray<T>& x) {
  PG_CUDA(cudaStreamSynchronize(me.stream));
  return x.values();
}

/// Sends to the next rank and receives from the one before.
inline void pass_on(const Rank& me, const float* from, float* to, int n, bool grouped) {
  if (grouped) check(ncclGroupStart());
  check(ncclSend(from, n, ncclFloat, (me.rank + 1) % me.ranks, me.comm, me.stream));
  check(ncclRecv(to, n, ncclFloat, (me.rank + me.ranks - 1) % me.ranks, me.comm, me.stream));
  if (grouped) check(ncclGroupEnd());
}

}  // namespace plangrad::tests
