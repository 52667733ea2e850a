// Small kernels whose requests can be counted by hand; each test of counters names what they cost.
// Not here: the counts. Chapter 12.
#pragma once

#include <cuda_bf16.h>

#include "cuda/launch/device.h"

namespace plangrad::tests {

/// Element i goes to element i, from `first` on, in steps of `stride`.
__global__ inline void copy_strided(const float* x, float* y, int stride, int first) {
  const int i = first + stride * static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  y[i] = x[i];
}

__global__ inline void copy_some(const float* x, float* y, int n) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) y[i] = x[i];
}

__global__ inline void copy_vectors(const float* x, float* y) {
  const auto i = 4 * threadIdx.x;
  cuda::store(y + i, cuda::load<cuda::Pack<float, 4>>(x + i));
}

__global__ inline void spread(const float* x, float* y) { y[threadIdx.x] = x[7]; }

/// Even and odd lanes take different branches.
__global__ inline void branch(const float* x, float* y) {
  if (threadIdx.x % 2 == 0)
    y[threadIdx.x] = x[threadIdx.x];
  else
    y[threadIdx.x + 64] = 1;
}

/// A lane's row of a matrix of 8 columns, one element after the other.
__global__ inline void sum_rows(const float* x, float* y) {
  float sum = 0;
  for (int i = 0; i < 8; ++i) sum += x[8 * threadIdx.x + i];
  y[threadIdx.x] = sum;
}

__global__ inline void add_one(unsigned* x) { atomicAdd(x + threadIdx.x / 16, 1u); }

// ---- shared memory ---------------------------------------------------------------------------

/// Stores by neighbours, and loads in steps of `stride`.
__global__ inline void load_strided(float* y, int stride) {
  __shared__ float shared[1024];
  for (int i = 0; i < 32; ++i) shared[32 * i + threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = shared[stride * threadIdx.x];
}

/// Loads a column of 32 elements from rows of `pitch`.
template <int pitch>
__global__ void load_column(float* y) {
  __shared__ float tile[32][pitch];
  for (int i = 0; i < 32; ++i) tile[i][threadIdx.x] = 1;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x][5];
}

/// Each lane loads 16 bytes, `apart` elements from its neighbour's.
__global__ inline void load_vectors(float* y, int apart) {
  alignas(16) __shared__ float shared[512];
  for (int i = 0; i < 16; ++i) shared[32 * i + threadIdx.x] = 1;
  __syncthreads();
  const auto value = cuda::load<cuda::Pack<float, 4>>(shared + apart * threadIdx.x);
  y[threadIdx.x] = value.at[0];
}

/// 32 threads store packs of N columns, and load neighbours.
template <int N>
__global__ void exchange_columns(float* y) {
  using Places = cuda::ColumnPlaces<N, 64 * N>;
  __shared__ float shared[Places::count];
  for (int i = 0; i < 2 * N; ++i)
    shared[Places::of(static_cast<int>(i / N * 32 * N + threadIdx.x * N) + i % N)] = 1;
  __syncthreads();
  float sum = 0;
  for (int c = static_cast<int>(threadIdx.x); c < 64 * N; c += 32) sum += shared[Places::of(c)];
  y[threadIdx.x] = sum;
}

// ---- warps -----------------------------------------------------------------------------------

__global__ inline void sum_warps(const float* x, float* y) {
  const float sum = cuda::warp_sum(x[threadIdx.x]);
  if (threadIdx.x % 32 == 0) y[threadIdx.x / 32] = sum;
}

__global__ inline void sum_block(const float* x, float* y) {
  const float sum = cuda::block_sum(x[threadIdx.x]);
  if (threadIdx.x == 0) *y = sum;
}

/// c = a b for one tile, with a (16,16), b (16,8), c (16,8).
__global__ inline void multiply_tile(const __nv_bfloat16* a, const __nv_bfloat16* b, float* c) {
  alignas(16) __shared__ __nv_bfloat16 tile_a[16 * 16];
  alignas(16) __shared__ __nv_bfloat16 tile_b[32 * 8];  // 16 rows twice, as ldmatrix_x4 loads 32
  const int lane = static_cast<int>(threadIdx.x);
  cuda::cp_async_16(tile_a + 8 * lane, a + 8 * lane);
  cuda::cp_async_16(tile_b + 8 * lane, b + 8 * (lane % 16));
  cuda::cp_async_commit();
  cuda::cp_async_wait<0>();
  __syncthreads();
  unsigned of_a[4], of_b[4];
  cuda::ldmatrix_x4(of_a, tile_a + lane % 16 * 16 + lane / 16 * 8);
  cuda::ldmatrix_x4_transposed(of_b, tile_b + 8 * lane);
  float sums[4] = {};
  cuda::mma_16816(sums, of_a, {of_b[0], of_b[1]});
  for (int i = 0; i < 4; ++i) c[(lane / 4 + 8 * (i / 2)) * 8 + 2 * (lane % 4) + i % 2] = sums[i];
}

/// c (16,64) = a b by a warp of four, with ones in a (16,16) and b (16,64), or in its transpose.
template <bool by_columns>
__global__ void multiply_shared(float* c) {
  alignas(1024) __shared__ __nv_bfloat16 tile[64 * 64];
  for (int i = threadIdx.x; i < 64 * 64; i += 32) tile[i] = __float2bfloat16(1);
  __syncthreads();
  float sums[8][4] = {};
  const unsigned ones = 0x3f803f80, of_a[4] = {ones, ones, ones, ones};
  cuda::wgmma_64x64x16<by_columns>(sums, of_a, cuda::describe(tile, 16, 8 * 128));
  for (int i = 0; i < 32; ++i) c[32 * i + threadIdx.x] = sums[i / 4][i % 4];
}

}  // namespace plangrad::tests
