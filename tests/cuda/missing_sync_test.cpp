// A forgotten barrier makes a result wrong in some order of threads; each test forgets one.
#include <numeric>

#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::launch;

namespace {

__global__ void reverse(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  shared[threadIdx.x] = in[threadIdx.x];
  if (!forget) __syncthreads();
  out[threadIdx.x] = shared[127 - threadIdx.x];
}

/// Turns the numbers round by one place, three times.
__global__ void rotate(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  shared[threadIdx.x] = in[threadIdx.x];
  for (int i = 0; i < 3; ++i) {
    __syncthreads();
    int next = shared[(threadIdx.x + 1) % 128];
    if (!forget) __syncthreads();  // all have read
    shared[threadIdx.x] = next;
  }
  out[threadIdx.x] = shared[threadIdx.x];
}

__global__ void swap_in_warp(const int* in, int* out, bool forget) {
  __shared__ int shared[128];
  shared[threadIdx.x] = in[threadIdx.x];
  if (!forget) __syncwarp();
  out[threadIdx.x] = shared[threadIdx.x ^ 1];
}

__global__ void copy_async(const int* in, int* out, bool forget) {
  alignas(16) __shared__ int shared[128];
  shared[threadIdx.x] = -1;
  __syncthreads();
  if (threadIdx.x < 32) cuda::cp_async_16(shared + 4 * threadIdx.x, in + 4 * threadIdx.x);
  cuda::cp_async_commit();
  if (!forget) cuda::cp_async_wait<0>();
  __syncthreads();
  out[threadIdx.x] = shared[threadIdx.x];
}

/// What a block has in shared memory before it writes there.
__global__ void leave_behind(int* out) {
  __shared__ int shared;
  if (threadIdx.x == 0) out[blockIdx.x] = shared;
  shared = 7;
}

using Kernel = void (*)(const int*, int*, bool);

std::vector<int> run(Kernel kernel, Order order, bool forget) {
  Machine machine({.order = order});
  std::vector<int> numbers(128);
  std::iota(numbers.begin(), numbers.end(), 0);
  DeviceArray<int> in(numbers), zeros(std::vector<int>(128)), out(128);
  launch(kernel, 1, 128, 0, nullptr, zeros, out, false);  // leaves zeros in shared memory
  launch(kernel, 1, 128, 0, nullptr, in, out, forget);
  return out.values();
}

}  // namespace

TEST_CASE("a forgotten barrier gives a wrong result in some order") {
  for (Kernel kernel : {reverse, rotate, swap_in_warp, copy_async}) {
    std::vector<int> right = run(kernel, Order::forward, false);
    bool noticed = false;
    for (Order order : all_orders) {
      CHECK(run(kernel, order, false) == right);
      noticed = noticed || run(kernel, order, true) != right;
    }
    CHECK(noticed);
  }
  CHECK(run(reverse, Order::random, false)[0] == 127);
  CHECK(run(rotate, Order::random, false)[0] == 3);
  CHECK(run(swap_in_warp, Order::random, false)[0] == 1);
  CHECK(run(copy_async, Order::random, false)[5] == 5);
}

TEST_CASE("static shared memory holds what another block has left there") {
  Machine machine;
  DeviceArray<int> out(2);
  launch(leave_behind, 2, 32, 0, nullptr, out);
  CHECK(out.values()[1] == 7);
}
