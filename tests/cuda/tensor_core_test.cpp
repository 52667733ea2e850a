// Asynchronous copies and matrix instructions: the layouts that PTX gives.
#include <cuda_bf16.h>

#include <cstring>

#include "cuda/launch/device.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"

using namespace plangrad;
using namespace plangrad::tests;
using cuda::launch;

namespace {

/// Each lane's four fragments of the matrices whose element (r,c) of matrix i is 64 i + 8 r + c.
__global__ void load_matrices(unsigned* out, bool transposed) {
  alignas(16) __shared__ unsigned short matrices[4 * 64];
  int lane = threadIdx.x;
  for (int i = lane; i < 4 * 64; i += 32) matrices[i] = i;
  __syncwarp();
  unsigned fragment[4];
  if (transposed)
    cuda::ldmatrix_x4_transposed(fragment, matrices + 8 * lane);
  else
    cuda::ldmatrix_x4(fragment, matrices + 8 * lane);
  for (int i = 0; i < 4; ++i) out[4 * lane + i] = fragment[i];
}

__device__ unsigned pair_of(__nv_bfloat16 low, __nv_bfloat16 high) {
  const __nv_bfloat16 pair[2] = {low, high};
  unsigned bits;
  memcpy(&bits, pair, sizeof bits);
  return bits;
}

/// c += a b, with fragments gathered from row-major matrices as PTX lays them out.
__global__ void multiply(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  int g = threadIdx.x / 4, t = 2 * (threadIdx.x % 4);
  auto pair_a = [&](int r, int column) {
    return pair_of(a[r * 16 + column], a[r * 16 + column + 1]);
  };
  auto pair_b = [&](int r, int column) {
    return pair_of(b[r * 8 + column], b[(r + 1) * 8 + column]);
  };
  unsigned fragment_a[4] = {pair_a(g, t), pair_a(g + 8, t), pair_a(g, t + 8), pair_a(g + 8, t + 8)};
  unsigned fragment_b[2] = {pair_b(t, g), pair_b(t + 8, g)};
  float* first = c + g * 8 + t;
  float* second = first + 8 * 8;
  float sum[4] = {first[0], first[1], second[0], second[1]};
  cuda::mma_16816(sum, fragment_a, fragment_b);
  first[0] = sum[0], first[1] = sum[1], second[0] = sum[2], second[1] = sum[3];
}

/// Adds up rows of 128 floats, one arriving while the one before is added.
__global__ void sum_rows(const float* rows, int count, float* sums) {
  alignas(16) __shared__ float buffer[2][128];
  float sum[4] = {};
  auto begin = [&](int row) {
    if (row < count)
      cuda::cp_async_16(buffer[row % 2] + 4 * threadIdx.x, rows + row * 128 + 4 * threadIdx.x);
    cuda::cp_async_commit();
  };
  begin(0);
  for (int row = 0; row < count; ++row) {
    begin(row + 1);
    cuda::cp_async_wait<1>();
    for (int i = 0; i < 4; ++i) sum[i] += buffer[row % 2][4 * threadIdx.x + i];
  }
  for (int i = 0; i < 4; ++i) sums[4 * threadIdx.x + i] = sum[i];
}

}  // namespace

TEST_CASE("ldmatrix gives each lane its pairs") {
  Machine machine;
  for (bool transposed : {false, true}) {
    DeviceArray<unsigned> out(128);
    launch(load_matrices, 1, 32, 0, nullptr, out, transposed);
    std::vector<unsigned> got = out.values();
    for (unsigned lane = 0; lane < 32; ++lane)
      for (unsigned i = 0; i < 4; ++i) {
        unsigned r = lane / 4, c = 2 * (lane % 4);
        unsigned low = 64 * i + (transposed ? 8 * c + r : 8 * r + c);
        REQUIRE(got[4 * lane + i] == (low | (low + (transposed ? 8 : 1)) << 16));
      }
  }
}

TEST_CASE("mma multiplies a warp's fragments") {
  for (Order order : all_orders) {
    Machine machine({.order = order});
    std::vector<__nv_bfloat16> a(256), b(128);
    std::vector<float> c(128);
    for (int i = 0; i < 256; ++i) a[i] = __float2bfloat16(float(i * 7 % 19 - 9));
    for (int i = 0; i < 128; ++i) b[i] = __float2bfloat16(float(i * 5 % 17 - 8));
    for (int i = 0; i < 128; ++i) c[i] = i;
    DeviceArray<__nv_bfloat16> da(a), db(b);
    DeviceArray<float> dc(c);
    launch(multiply, 1, 32, 0, nullptr, da, db, dc);
    std::vector<float> got = dc.values();
    for (int i = 0; i < 16; ++i)
      for (int j = 0; j < 8; ++j) {
        float sum = c[i * 8 + j];  // of small integers, so exact
        for (int k = 0; k < 16; ++k)
          sum += __bfloat162float(a[i * 16 + k]) * __bfloat162float(b[k * 8 + j]);
        REQUIRE(got[i * 8 + j] == sum);
      }
  }
}

TEST_CASE("asynchronous copies arrive when they are waited for, group by group") {
  for (Order order : all_orders) {
    Machine machine({.order = order});
    std::vector<float> rows(5 * 128);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = i;
    DeviceArray<float> in(rows), out(128);
    launch(sum_rows, 1, 32, 0, nullptr, in, 5, out);
    std::vector<float> got = out.values();
    for (int i = 0; i < 128; ++i) REQUIRE(got[i] == 5 * i + 128 * 10);
  }
}
