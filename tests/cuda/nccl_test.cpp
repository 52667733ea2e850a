// NCCL of the emulator: what collectives and messages compute, with ranks as host threads, or one
// thread for all. Not here: faults (nccl_faults_test.cpp).
#include <cuda_bf16.h>
#include <nccl.h>

#include <memory>

#include "tests/catch.h"
#include "tests/cuda/nccl_ranks.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::launch;

namespace {

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
  check(ncclReduce(in, out, n, ncclFloat, ncclSum, 1, me.comm, me.stream));
  check_equal(after(me, out), me.rank == 1 ? first_sums : values_of(1, n));
  check(ncclAllReduce(in, in, n, ncclFloat, ncclSum, me.comm, me.stream));  // in place
  check_equal(after(me, in), first_sums);
}

}  // namespace

TEST_CASE("collectives of ranks in threads, in every schedule") {
  for (const Settings& settings : every_schedule(2))
    for (int ranks : {2, 3, 5}) {
      Machine machine(settings);
      REQUIRE_NOTHROW(on_ranks(ranks, all_collectives));
    }
}

TEST_CASE("bf16 is summed in f32 and rounded once") {
  Machine machine;
  const float big = 256,
              small = 1;  // 256 + 1 is no bf16: rounded each time, the ones would be lost
  std::vector<float> sums(4);
  on_ranks(4, [&](const Rank& me) {
    DeviceArray<__nv_bfloat16> x({__float2bfloat16(me.rank == 0 ? big : small)});
    check(ncclAllReduce(x, x, 1, ncclBfloat16, ncclSum, me.comm, me.stream));
    sums[me.rank] = __bfloat162float(after(me, x)[0]);
  });
  CHECK(sums == std::vector<float>(4, 260));  // 259, to a multiple of 2
}

TEST_CASE("one thread drives all ranks by groups") {
  Machine machine({.schedule = QueueSchedule::lazy});
  const int ranks = 3;
  const auto comms = make_comms(ranks);
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
    cudaSetDevice(r);
    for (int i = 0; i < 4; ++i) CHECK(x[r]->values()[i] == sum_at(ranks, i));
    ncclCommDestroy(comms[r]);
  }
}

TEST_CASE("messages meet in the order in which they were sent") {
  for (const Settings& settings : every_schedule(2)) {
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
