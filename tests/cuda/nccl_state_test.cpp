// NCCL of the emulator: calls that don't wait, whose state is asked for.
#include <nccl.h>

#include "tests/catch.h"
#include "tests/cuda/nccl_ranks.h"

using namespace plangrad;
using namespace plangrad::tests;

namespace {

ncclComm_t join_without_waiting(const ncclUniqueId& id, int ranks, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm;
  cudaSetDevice(rank);
  CHECK(ncclCommInitRankConfig(&comm, ranks, id, rank, &config) == ncclInProgress);
  return comm;
}

ncclResult_t state_of(ncclComm_t comm) {
  ncclResult_t state = ncclInternalError;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  return state;
}

}  // namespace

TEST_CASE("calls that don't wait: they begin when their state is asked for") {
  Machine machine(faulty());
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  const ncclComm_t first = join_without_waiting(id, 2, 0);
  DeviceArray<float> x(std::vector<float>{1});
  CHECK(state_of(first) == ncclInProgress);
  auto sum = [](float* data, ncclComm_t comm) {
    return ncclAllReduce(data, data, 1, ncclFloat, ncclSum, comm, nullptr);
  };
  CHECK(sum(x, first) == ncclInvalidUsage);  // too early
  const ncclComm_t second = join_without_waiting(id, 2, 1);
  DeviceArray<float> y(std::vector<float>{2});
  CHECK(state_of(first) == ncclSuccess);
  CHECK(sum(y, second) == ncclInProgress);
  CHECK(cudaStreamQuery(nullptr) == cudaSuccess);  // nothing is queued so far
  CHECK(sum(y, second) == ncclInvalidUsage);
  CHECK_THAT(cuda::emulator::reset(),
             Contains("rank 1 calls ncclAllReduce while ncclAllReduce is in progress"));
  CHECK(state_of(second) == ncclSuccess);
  CHECK(cudaStreamQuery(nullptr) == cudaErrorNotReady);
  cudaSetDevice(0);
  CHECK(sum(x, first) == ncclInProgress);
  CHECK(ncclCommFinalize(first) == ncclInProgress);  // begins it, too
  CHECK(x.values() == std::vector<float>{3});
  CHECK(y.values() == std::vector<float>{3});
  for (ncclComm_t comm : {first, second}) ncclCommDestroy(comm);
}

TEST_CASE("calls that don't wait: what is wrong with them is their state") {
  Machine machine(faulty());
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comms[] = {join_without_waiting(id, 3, 0), join_without_waiting(id, 3, 1)};
  ncclCommAbort(comms[0]);
  CHECK(state_of(comms[1]) == ncclRemoteError);
  ncclCommAbort(comms[1]);

  ncclGetUniqueId(&id);
  comms[0] = join_without_waiting(id, 2, 0);
  DeviceArray<float> x(2);
  comms[1] = join_without_waiting(id, 2, 1);
  DeviceArray<float> y(2);
  CHECK(ncclBroadcast(x, x, 1, ncclFloat, 0, comms[0], nullptr) == ncclInProgress);
  CHECK(state_of(comms[0]) == ncclSuccess);
  CHECK(ncclBroadcast(y, y, 2, ncclFloat, 0, comms[1], nullptr) == ncclInProgress);
  for (int i = 0; i < 2; ++i) CHECK(state_of(comms[1]) == ncclInvalidUsage);
  CHECK_THAT(cuda::emulator::reset(), Contains("calls that do not match"));
  for (ncclComm_t comm : comms) ncclCommAbort(comm);
}
