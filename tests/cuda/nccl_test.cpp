// NCCL of the emulator: ranks as host threads, or one thread for all.
#include <cuda_bf16.h>
#include <nccl.h>

#include <array>
#include <chrono>
#include <latch>
#include <memory>

#include "autograd/error.h"
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/in_threads.h"

using namespace paragrad;
using namespace paragrad::tests;
using cuda::launch;

namespace {

void check(ncclResult_t result, ncclResult_t expected = ncclSuccess) {
  PG_CHECK(result == expected, "NCCL: expected ", expected, ", got ", ncclGetErrorString(result));
}

/// What a rank has: a device, a stream on it, and its place in a communicator.
struct Rank {
  int rank, ranks;
  ncclComm_t comm;
  cudaStream_t stream;
};

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

float value(int rank, int i) { return 1.0f / (1 + rank * 3 + i * 7 % 13); }

std::vector<float> values_of(int rank, int count) {
  std::vector<float> result(count);
  for (int i = 0; i < count; ++i) result[i] = value(rank, i);
  return result;
}

/// The sum in f32, in the order of ranks.
float sum_at(int ranks, int i) {
  float sum = value(0, i);
  for (int r = 1; r < ranks; ++r) sum += value(r, i);
  return sum;
}

template <class T>
std::vector<T> after(const Rank& me, const DeviceArray<T>& x) {
  PG_CUDA(cudaStreamSynchronize(me.stream));
  return x.values();
}

void check_equal(const std::vector<float>& got, const std::vector<float>& expected) {
  PG_CHECK(got == expected, "a collective's result differs");
}

/// Every collective once, on 3 or so ranks.
void all_collectives(const Rank& me) {
  const int n = 5, ranks = me.ranks;
  std::vector<float> sums(n * ranks), all;
  for (int i = 0; i < n * ranks; ++i) sums[i] = sum_at(ranks, i);
  for (int r = 0; r < ranks; ++r)
    for (int i = 0; i < n; ++i) all.push_back(value(r, i));
  std::vector<float> first_sums(sums.begin(), sums.begin() + n);
  std::vector<float> my_sums(sums.begin() + me.rank * n, sums.begin() + (me.rank + 1) * n);
  DeviceArray<float> in(values_of(me.rank, n)), out(n);
  DeviceArray<float> long_in(values_of(me.rank, n * ranks)), long_out(n * ranks);

  check(ncclAllReduce(in, out, n, ncclFloat, ncclSum, me.comm, me.stream));
  check_equal(after(me, out), first_sums);
  check(ncclReduceScatter(long_in, out, n, ncclFloat, ncclSum, me.comm, me.stream));
  check_equal(after(me, out), my_sums);
  check(ncclAllGather(in, long_out, n, ncclFloat, me.comm, me.stream));
  check_equal(after(me, long_out), all);
  check(ncclBroadcast(in, out, n, ncclFloat, 1, me.comm, me.stream));
  check_equal(after(me, out), values_of(1, n));
  check(ncclReduce(in, out, n, ncclFloat, ncclMax, 1, me.comm, me.stream));
  std::vector<float> largest = values_of(0, n);  // values fall with the rank
  check_equal(after(me, out), me.rank == 1 ? largest : values_of(1, n));
  check(ncclAllReduce(in, in, n, ncclFloat, ncclSum, me.comm, me.stream));  // in place
  check_equal(after(me, in), first_sums);
}

/// Sends to the next rank and receives from the one before.
void pass_on(const Rank& me, const float* from, float* to, int n, bool grouped) {
  if (grouped) check(ncclGroupStart());
  check(ncclSend(from, n, ncclFloat, (me.rank + 1) % me.ranks, me.comm, me.stream));
  check(ncclRecv(to, n, ncclFloat, (me.rank + me.ranks - 1) % me.ranks, me.comm, me.stream));
  if (grouped) check(ncclGroupEnd());
}

std::vector<Settings> all_schedules() {
  return {{.schedule = QueueSchedule::eager},
          {.schedule = QueueSchedule::lazy},
          {.schedule = QueueSchedule::random, .seed = 1},
          {.schedule = QueueSchedule::random, .seed = 2}};
}

__global__ void add_one(float* x) { *x += 1; }

}  // namespace

TEST_CASE("collectives of ranks in threads, in every schedule") {
  for (const Settings& settings : all_schedules())
    for (int ranks : {2, 3, 5}) {
      Machine machine(settings);
      REQUIRE_NOTHROW(on_ranks(ranks, all_collectives));
    }
}

TEST_CASE("bf16 is summed in f32 and rounded once, integers exactly") {
  Machine machine;
  const float big = 256,
              small = 1;  // 256 + 1 is no bf16: rounded each time, the ones would be lost
  std::vector<float> sums(4), averages(4);
  std::vector<std::int64_t> integers(4);
  on_ranks(4, [&](const Rank& me) {
    DeviceArray<__nv_bfloat16> x({__float2bfloat16(me.rank == 0 ? big : small)}), average(1);
    DeviceArray<std::int64_t> integer(std::vector{(std::int64_t{1} << 40) + me.rank});
    check(ncclAllReduce(x, average, 1, ncclBfloat16, ncclAvg, me.comm, me.stream));
    check(ncclAllReduce(x, x, 1, ncclBfloat16, ncclSum, me.comm, me.stream));
    check(ncclAllReduce(integer, integer, 1, ncclInt64, ncclSum, me.comm, me.stream));
    sums[me.rank] = __bfloat162float(after(me, x)[0]);
    averages[me.rank] = __bfloat162float(average.values()[0]);
    integers[me.rank] = integer.values()[0];
  });
  CHECK(sums == std::vector<float>(4, 260));     // 259, to a multiple of 2
  CHECK(averages == std::vector<float>(4, 65));  // 64.75, to a multiple of 1/2
  CHECK(integers == std::vector<std::int64_t>(4, (std::int64_t{4} << 40) + 6));
}

TEST_CASE("one thread drives all ranks by groups") {
  Machine machine({.schedule = QueueSchedule::lazy});
  const int ranks = 3;
  ncclComm_t comms[ranks];
  REQUIRE(ncclCommInitAll(comms, ranks, nullptr) == ncclSuccess);
  std::vector<std::unique_ptr<DeviceArray<float>>> x;
  for (int r = 0; r < ranks; ++r) {
    cudaSetDevice(r);
    x.push_back(std::make_unique<DeviceArray<float>>(values_of(r, 4)));
  }
  ncclGroupStart();
  for (int r = 0; r < ranks; ++r)
    REQUIRE(ncclAllReduce(*x[r], *x[r], 4, ncclFloat, ncclSum, comms[r], nullptr) == ncclSuccess);
  REQUIRE(ncclGroupEnd() == ncclSuccess);
  for (int r = 0; r < ranks; ++r) {
    int rank, count, device;
    ncclCommUserRank(comms[r], &rank);
    ncclCommCount(comms[r], &count);
    ncclCommCuDevice(comms[r], &device);
    CHECK(std::array{rank, count, device} == std::array{r, ranks, r});
    cudaSetDevice(r);
    for (int i = 0; i < 4; ++i) CHECK(x[r]->values()[i] == sum_at(ranks, i));
    ncclCommDestroy(comms[r]);
  }
}

TEST_CASE("messages meet in the order in which they were sent") {
  for (const Settings& settings : all_schedules()) {
    Machine machine(settings);
    auto body = [](const Rank& me) {
      DeviceArray<float> mine(values_of(me.rank, 3)), first(3), second(3);
      pass_on(me, mine, first, 3, true);
      pass_on(me, first, second, 3, true);
      check_equal(after(me, second), values_of((me.rank + me.ranks - 2) % me.ranks, 3));
      check(ncclGroupStart());  // to itself
      check(ncclSend(mine, 3, ncclFloat, me.rank, me.comm, me.stream));
      check(ncclRecv(first, 3, ncclFloat, me.rank, me.comm, me.stream));
      check(ncclGroupEnd());
      check_equal(after(me, first), values_of(me.rank, 3));
    };
    REQUIRE_NOTHROW(on_ranks(3, body));
  }
}

TEST_CASE("a ring of sends without a group is reported as a deadlock") {
  for (int ranks : {1, 2}) {
    Machine machine(faulty());
    std::vector<ncclComm_t> comms(ranks);
    REQUIRE(ncclCommInitAll(comms.data(), ranks, nullptr) == ncclSuccess);
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
  ncclComm_t comms[2];
  REQUIRE(ncclCommInitAll(comms, 2, nullptr) == ncclSuccess);
  DeviceArray<float> x(4);
  cudaSetDevice(1);
  DeviceArray<float> y(4);
  using cuda::emulator::reset;
  auto reports = [&](auto&& first, auto&& second) {
    CHECK(first() == ncclSuccess);
    CHECK(second() == ncclInvalidUsage);
    return reset();
  };
  auto sum = [&](int r, float* data, int count, ncclDataType_t type, ncclRedOp_t op) {
    return [=] { return ncclAllReduce(data, data, count, type, op, comms[r], nullptr); };
  };
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat, ncclSum), sum(1, y, 3, ncclFloat, ncclSum)),
             Contains("rank 0 ncclAllReduce of 4") && Contains("rank 1 ncclAllReduce of 3"));
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat, ncclSum), sum(1, y, 4, ncclInt32, ncclSum)),
             Contains("type 7") && Contains("type 2"));
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat, ncclSum), sum(1, y, 4, ncclFloat, ncclMax)),
             Contains("operation 0") && Contains("operation 2"));
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
  CHECK_THAT(reports(sum(0, x, 4, ncclFloat, ncclSum), broadcast(1, y, 0)),
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
  ncclComm_t comm;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
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
  ncclComm_t comm;
  REQUIRE(ncclCommInitAll(&comm, 1, nullptr) == ncclSuccess);
  DeviceArray<float> x(4);
  float host[4];
  auto broadcast = [&](float* data, int count, int root, cudaStream_t stream) {
    return ncclBroadcast(data, data, count, ncclFloat, root, comm, stream);
  };
  CHECK(broadcast(host, 4, 0, nullptr) == ncclInvalidArgument);
  CHECK(broadcast(x, 5, 0, nullptr) == ncclInvalidArgument);
  CHECK(broadcast(x, 4, 1, nullptr) == ncclInvalidArgument);
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

TEST_CASE("an abort is seen by the other ranks, which abort and go on without") {
  Machine machine({.schedule = QueueSchedule::lazy});
  std::latch both_have_called(2);
  on_ranks(2, [&](Rank& me) {
    DeviceArray<float> x(std::vector<float>{1});
    check(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, me.comm, me.stream));
    launch(add_one, 1, 1, 0, me.stream, x);
    both_have_called.arrive_and_wait();
    if (me.rank == 0) {
      ncclResult_t error = ncclSuccess;
      auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
      while (error == ncclSuccess && std::chrono::steady_clock::now() < deadline)
        check(ncclCommGetAsyncError(me.comm, &error));
      check(error, ncclRemoteError);
      check(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, me.comm, me.stream), ncclRemoteError);
      PG_CHECK(cudaStreamQuery(me.stream) == cudaErrorNotReady, "the all-reduce ran alone");
    }
    check(ncclCommAbort(me.comm));
    me.comm = nullptr;
    PG_CHECK(after(me, x)[0] == 2, "what follows the dropped all-reduce has not run");
  });
  SUCCEED();
}

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

TEST_CASE("an all-reduce that overlaps kernels needs its events") {
  Machine machine({.schedule = QueueSchedule::lazy});
  std::vector<float> with(2), without(2);
  on_ranks(2, [&](const Rank& me) {
    cudaStream_t compute;
    cudaEvent_t ready;
    PG_CUDA(cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking));
    PG_CUDA(cudaEventCreate(&ready));
    DeviceArray<float> x(std::vector<float>{1}), y(std::vector<float>{1});
    launch(add_one, 1, 1, 0, compute, x);
    launch(add_one, 1, 1, 0, compute, y);
    check(ncclAllReduce(y, y, 1, ncclFloat, ncclSum, me.comm, me.stream));  // forgets to wait
    without[me.rank] = after(me, y)[0];
    PG_CUDA(cudaEventRecord(ready, compute));
    PG_CUDA(cudaStreamWaitEvent(me.stream, ready));
    check(ncclAllReduce(x, x, 1, ncclFloat, ncclSum, me.comm, me.stream));
    with[me.rank] = after(me, x)[0];
    PG_CUDA(cudaStreamSynchronize(compute));
    PG_CUDA(cudaStreamDestroy(compute));
    PG_CUDA(cudaEventDestroy(ready));
  });
  CHECK(with == std::vector<float>{4, 4});
  CHECK(without == std::vector<float>{2, 2});
}
