// Threads of a block: their numbers, barriers, warp operations and shared memory, in every order.
#include <algorithm>
#include <barrier>
#include <fstream>
#include <iterator>
#include <numeric>

#include "cuda/emulator/sanitizer.h"
#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/in_threads.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::dynamic_shared;
using cuda::launch;

namespace {

/// out[i] = in[i] in the order of all dimensions of the grid.
__global__ void number_threads(int* out) {
  int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  int thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * (blockDim.x * blockDim.y * blockDim.z) + thread] += 1000 * block + thread;
}

/// Reverses 64 numbers by static shared memory.
__global__ void reverse_static(int* numbers) {
  __shared__ int shared[64];
  shared[threadIdx.x] = numbers[threadIdx.x];
  __syncthreads();
  numbers[threadIdx.x] = shared[63 - threadIdx.x];
}

/// Reverses a block's numbers by dynamic shared memory.
__global__ void reverse_dynamic(int* numbers) {
  int* shared = dynamic_shared<int>();
  int* mine = numbers + blockIdx.x * blockDim.x;
  shared[threadIdx.x] = mine[threadIdx.x];
  __syncthreads();
  mine[threadIdx.x] = shared[blockDim.x - 1 - threadIdx.x];
}

/// The sum of a block's numbers, by halves.
__global__ void sum_by_halves(const float* numbers, float* sum) {
  __shared__ float shared[256];
  shared[threadIdx.x] = numbers[threadIdx.x];
  for (int half = blockDim.x / 2; half > 0; half /= 2) {
    __syncthreads();
    if (int(threadIdx.x) < half) shared[threadIdx.x] += shared[threadIdx.x + half];
  }
  if (threadIdx.x == 0) *sum = shared[0];
}

/// Two such kernels run at the same time, each with a stack for every thread.
__global__ void meet_another(std::barrier<>* both) {
  __syncthreads();
  if (threadIdx.x == 0) both->arrive_and_wait();
  __syncthreads();
}

struct WarpResults {
  float sum, maximum, sum_by_shuffles;
  int from_3, up, down, ballot, any, all;
};

__global__ void warp_operations(const float* numbers, WarpResults* results) {
  float x = numbers[threadIdx.x];
  WarpResults& mine = results[threadIdx.x];
  mine.sum = cuda::warp_sum(x);
  mine.maximum = cuda::warp_max(x);
  float sum = x;
  for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
  mine.sum_by_shuffles = sum;
  int lane = threadIdx.x % 32;
  mine.from_3 = __shfl_sync(~0u, lane * 10, 3);
  mine.up = __shfl_up_sync(~0u, lane, 2);
  mine.down = __shfl_down_sync(~0u, lane, 2);
  mine.ballot = __ballot_sync(~0u, lane % 2);
  mine.any = __any_sync(~0u, lane == 31);
  mine.all = __all_sync(~0u, lane < 31);
}

__global__ void count_all(unsigned* counter, int* largest, float* sum) {
  atomicAdd(counter, 1u);
  atomicMax(largest, int(blockIdx.x * blockDim.x + threadIdx.x));
  atomicAdd(sum, 0.5f);
}

std::vector<float> some_floats(int count) {
  std::vector<float> result(count);
  for (int i = 0; i < count; ++i) result[i] = 1.0f / (1 + i * 37 % 101);
  return result;
}

}  // namespace

TEST_CASE("every thread of a grid of three dimensions runs once") {
  for (Order order : all_orders) {
    Machine machine({.order = order});
    const int threads = 5 * 3 * 2, blocks = 3 * 2 * 4;
    DeviceArray<int> out(std::vector<int>(threads * blocks, 0));
    launch(number_threads, dim3(3, 2, 4), dim3(5, 3, 2), 0, nullptr, out);
    std::vector<int> got = out.values();
    for (int i = 0; i < threads * blocks; ++i)
      REQUIRE(got[i] == 1000 * (i / threads) + i % threads);
  }
}

TEST_CASE("shared memory passes values across a barrier") {
  std::vector<int> numbers(64 * 5);
  std::iota(numbers.begin(), numbers.end(), 0);
  for (Order order : all_orders) {
    Machine machine({.order = order});
    DeviceArray<int> one(std::vector<int>(numbers.begin(), numbers.begin() + 64));
    launch(reverse_static, 1, 64, 0, nullptr, one);
    std::vector<int> got = one.values();
    for (int i = 0; i < 64; ++i) REQUIRE(got[i] == 63 - i);

    DeviceArray<int> blocks(numbers);
    launch(reverse_dynamic, 5, 64, 64 * sizeof(int), nullptr, blocks);
    got = blocks.values();
    for (int i = 0; i < 64 * 5; ++i) REQUIRE(got[i] == i / 64 * 64 + 63 - i % 64);
  }
}

TEST_CASE("barriers in a loop give the same bits in every order") {
  std::vector<float> numbers = some_floats(256), tree = numbers;
  for (int half = 128; half > 0; half /= 2)
    for (int i = 0; i < half; ++i) tree[i] += tree[i + half];
  for (Order order : all_orders) {
    Machine machine({.order = order});
    DeviceArray<float> in(numbers), sum(1);
    launch(sum_by_halves, 1, 256, 0, nullptr, in, sum);
    REQUIRE(sum.values()[0] == tree[0]);
  }
}

TEST_CASE("warp operations give CUDA's results in every order") {
  std::vector<float> numbers = some_floats(96);
  for (Order order : all_orders) {
    Machine machine({.order = order});
    DeviceArray<float> in(numbers);
    DeviceArray<WarpResults> out(96);
    launch(warp_operations, 1, 96, 0, nullptr, in, out);
    std::vector<WarpResults> got = out.values();
    for (int i = 0; i < 96; ++i) {
      const float* warp = numbers.data() + i / 32 * 32;
      int lane = i % 32;
      REQUIRE(got[i].sum == Approx(std::accumulate(warp, warp + 32, 0.0)).epsilon(1e-6));
      REQUIRE(got[i].sum == got[i].sum_by_shuffles);  // the same tree, so the same bits
      REQUIRE(got[i].maximum == *std::max_element(warp, warp + 32));
      REQUIRE(got[i].from_3 == 30);
      REQUIRE(got[i].up == (lane < 2 ? lane : lane - 2));
      REQUIRE(got[i].down == (lane > 29 ? lane : lane + 2));
      REQUIRE(got[i].ballot == int(0xAAAAAAAA));
      REQUIRE(got[i].any == 1);
      REQUIRE(got[i].all == 0);
    }
  }
}

TEST_CASE("atomics count every thread") {
  Machine machine;
  DeviceArray<unsigned> counter(std::vector<unsigned>{0});
  DeviceArray<int> largest(std::vector<int>{-1});
  DeviceArray<float> sum(std::vector<float>{0});
  launch(count_all, 7, 33, 0, nullptr, counter, largest, sum);
  REQUIRE(counter.values()[0] == 7 * 33);
  REQUIRE(largest.values()[0] == 7 * 33 - 1);
  REQUIRE(sum.values()[0] == 0.5f * 7 * 33);
}

TEST_CASE("launches at the same time borrow no more stacks than they have threads") {
  if (cuda::emulator::has_address_sanitizer) SKIP_TEST("blocks run one at a time");
  Machine machine({.schedule = QueueSchedule::eager});
  std::barrier both(2);
  for (int i = 0; i < 20; ++i)
    in_threads(2, [&](int device) {
      cudaSetDevice(device);
      launch(meet_another, dim3(1), dim3(256), 0, nullptr, &both);
    });
  std::ifstream maps("/proc/self/maps");  // a line for each stack, and for the page before it
  CHECK(std::count(std::istreambuf_iterator<char>(maps), {}, '\n') < 5000);
}
