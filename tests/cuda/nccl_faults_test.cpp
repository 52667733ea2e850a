// NCCL of the emulator: what is wrong with calls, ranks and their arguments is reported.
#include <nccl.h>

#include <array>
#include <chrono>
#include <latch>

#include "tests/catch.h"
#include "tests/cuda/nccl_ranks.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::launch;

TEST_CASE("a ring of sends without a group is reported as a deadlock") {
  for (int ranks : {1, 2}) {
    Machine machine(faulty());
    const auto comms = make_comms(ranks);
    for (int r = 0; r < ranks; ++r) {
      cudaSetDevice(r);
      float* buffers;
      cudaMalloc(&buffers, 6 * sizeof(float));
      pass_on({r, ranks, comms[r], nullptr}, buffers, buffers + 3, 3, false);
    }
    CHECK(cudaStreamSynchronize(nullptr) == cudaErrorLaunchTimeout);
    for (ncclComm_t comm : comms) ncclCommDestroy(comm);
    std::string report = cuda::emulator::reset();
    CHECK_THAT(report, Contains("deadlock: nothing has moved for 0.2 seconds"));
    CHECK_THAT(report, Contains("device 0, default stream: 2 queued, first NCCL call"));
    CHECK_THAT(report, Contains(ranks == 1 ? "message from rank 0 to 0" : "from rank 1 to 0"));
    CHECK_THAT(report, Contains("called by 2 of 2, first in the queues of 1"));
  }
}

TEST_CASE("calls that do not match are reported") {
  Machine machine(faulty());
  const auto comms = make_comms(2);
  DeviceArray<float> x(4);
  cudaSetDevice(1);
  DeviceArray<float> y(4);
  using cuda::emulator::reset;
  auto reports = [&](auto&& first, auto&& second) {
    CHECK(first() == ncclSuccess);
    CHECK(second() == ncclInvalidUsage);
    return reset();
  };
  auto sum = [&](int r, float* data, int count, ncclDataType_t type) {
    return [=] { return ncclAllReduce(data, data, count, type, ncclSum, comms[r], nullptr); };
  };
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat), sum(1, y, 3, ncclFloat)),
             Contains("rank 0 ncclAllReduce of 4") && Contains("rank 1 ncclAllReduce of 3"));
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat), sum(1, y, 4, ncclBfloat16)),
             Contains("type 7") && Contains("type 9"));
  auto broadcast = [&](int r, float* data, int root) {
    return [=] { return ncclBroadcast(data, data, 4, ncclFloat, root, comms[r], nullptr); };
  };
  CHECK_THAT(reports(broadcast(0, x, 0), broadcast(1, y, 1)),
             Contains("root 0") && Contains("root 1"));
  auto reduce = [&](int r, float* data, int count, int root) {
    return
        [=] { return ncclReduce(data, data, count, ncclFloat, ncclSum, root, comms[r], nullptr); };
  };
  CHECK_THAT(reports(reduce(0, x, 4, 0), reduce(1, y, 3, 0)),
             Contains("rank 0 ncclReduce of 4") && Contains("rank 1 ncclReduce of 3"));
  auto scatter = [&](int r, float* data, int count) {
    return [=] {
      return ncclReduceScatter(data, data + r * count, count, ncclFloat, ncclSum, comms[r],
                               nullptr);
    };
  };
  auto gather = [&](int r, float* data, int count) {
    return
        [=] { return ncclAllGather(data + r * count, data, count, ncclFloat, comms[r], nullptr); };
  };
  CHECK_THAT(reports(scatter(0, x, 2), scatter(1, y, 1)), Contains("ncclReduceScatter of 1"));
  CHECK_THAT(reports(gather(0, x, 2), gather(1, y, 1)), Contains("ncclAllGather of 1"));
  CHECK_THAT(reports(scatter(0, x, 2), gather(1, y, 2)), Contains("rank 1 ncclAllGather of 2"));
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat), broadcast(1, y, 0)),
             Contains("ncclAllReduce") && Contains("ncclBroadcast"));
  auto send = [&] { return ncclSend(x, 4, ncclFloat, 1, comms[0], nullptr); };
  auto receive = [&] { return ncclRecv(y, 2, ncclFloat, 0, comms[1], nullptr); };
  CHECK_THAT(reports(send, receive), Contains("ncclSend of 4") && Contains("ncclRecv of 2"));
  auto chunks = [&](int r, float* data, std::array<int, 2> roots) {
    return [=] {  // of 3 values, in this order
      ncclGroupStart();
      for (int root : roots) reduce(r, data + root, 1 + root, root)();
      return ncclGroupEnd();
    };
  };
  CHECK_THAT(reports(chunks(0, x, {0, 1}), chunks(1, y, {1, 0})),
             Contains("rank 0 ncclReduce of 1") && Contains("root 0") && Contains("root 1"));
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
}

TEST_CASE("calls whose buffers overlap, and that are not in place, are reported") {
  Machine machine(faulty());
  const ncclComm_t comm = make_comms(1)[0];
  DeviceArray<float> x(4);
  auto report = [](ncclResult_t result) {
    CHECK(result == ncclInvalidUsage);
    return cuda::emulator::reset();
  };
  CHECK_THAT(report(ncclReduceScatter(x, x + 1, 2, ncclFloat, ncclSum, comm, nullptr)),
             Contains("rank 0 ncclReduceScatter: what it reads and what it writes overlap"));
  CHECK_THAT(report(ncclAllGather(x + 1, x, 2, ncclFloat, comm, nullptr)),
             Contains("ncclAllGather: what it reads"));
  CHECK_THAT(report(ncclAllReduce(x, x + 1, 2, ncclFloat, ncclSum, comm, nullptr)),
             Contains("ncclAllReduce: what it reads"));
  CHECK(ncclReduceScatter(x, x + 2, 2, ncclFloat, ncclSum, comm, nullptr) == ncclSuccess);  // apart
  ncclCommDestroy(comm);
}

TEST_CASE("arguments that NCCL cannot use are refused") {
  Machine machine(faulty());
  const ncclComm_t comm = make_comms(1)[0];
  DeviceArray<float> x(4);
  float host[4];
  auto broadcast = [&](float* data, int count, int root, cudaStream_t stream) {
    return ncclBroadcast(data, data, count, ncclFloat, root, comm, stream);
  };
  CHECK(broadcast(host, 4, 0, nullptr) == ncclInvalidArgument);
  CHECK(broadcast(x, 5, 0, nullptr) == ncclInvalidArgument);
  CHECK(broadcast(x, 4, 1, nullptr) == ncclInvalidArgument);
  CHECK(ncclAllReduce(x, x, 4, ncclUint8, ncclSum, comm, nullptr) == ncclInvalidArgument);
  cudaStream_t elsewhere;
  cudaSetDevice(1);
  cudaStreamCreate(&elsewhere);
  CHECK(broadcast(x, 4, 0, elsewhere) == ncclInvalidArgument);
  cudaStreamDestroy(elsewhere);
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
  ncclGroupStart();
  CHECK(broadcast(x, 4, 1, nullptr) == ncclInvalidArgument);
  CHECK(broadcast(x, 4, 0, nullptr) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);  // nothing of the group is queued
  CHECK(cudaStreamQuery(nullptr) == cudaSuccess);
  ncclCommDestroy(comm);
}

TEST_CASE("ranks that do not come, or share a device, are reported") {
  Machine machine(faulty());
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t comm, second;
  CHECK(ncclCommInitRank(&comm, 3, id, 1) == ncclSystemError);
  CHECK_THAT(cuda::emulator::reset(), Contains("1 of 3 ranks have come"));
  CHECK(ncclCommInitRank(&second, 3, id, 2) == ncclInvalidUsage);
  CHECK_THAT(cuda::emulator::reset(), Contains("rank 2 is on device 0, which another rank has"));
  CHECK(ncclCommInitRank(&second, 4, id, 2) == ncclInvalidUsage);
  CHECK(ncclCommInitRank(&second, 3, id, 3) == ncclInvalidArgument);
  ncclCommDestroy(comm);
}

TEST_CASE("other ranks see an abort, if they are told, abort as well, and go on without") {
  const bool told = GENERATE(true, false);
  Machine machine({.schedule = QueueSchedule::lazy, .silent_aborts = told ? 0. : 1.});
  std::latch both_have_called(2);
  on_ranks(2, [&](Rank& me) {
    DeviceArray<float> x(std::vector<float>{1});
    check(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, me.comm, me.stream));
    launch(add_one, 1, 1, 0, me.stream, x);
    both_have_called.arrive_and_wait();
    if (me.rank == 0) {
      ncclResult_t error = ncclSuccess;
      auto deadline =
          std::chrono::steady_clock::now() + std::chrono::milliseconds(told ? 20000 : 20);
      while (error == ncclSuccess && std::chrono::steady_clock::now() < deadline)
        check(ncclCommGetAsyncError(me.comm, &error));
      check(error, told ? ncclRemoteError : ncclSuccess);
      check(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, me.comm, me.stream), error);
      PG_CHECK(cudaStreamQuery(me.stream) == cudaErrorNotReady, "the all-reduce ran alone");
    }
    check(ncclCommAbort(me.comm));
    me.comm = nullptr;
    PG_CHECK(after(me, x)[0] == 2, "what follows the dropped all-reduce has not run");
  });
  SUCCEED();
}
