// Tiles of bf16 in shared memory, and their products by tensor cores: a warp has 16 rows of a
// result, whose fragments are laid out as mma_16816 (cuda/launch/device_gpu.h) gives them.
// Not here: attention. PTX ISA, matrix multiply-accumulate operation with mma.
#pragma once

#include <cstring>

#include "cuda/backend/attention.h"

namespace paragrad::cuda {

using Bf16 = __nv_bfloat16;

constexpr int flash_rows = 64, flash_threads = 32 * flash_rows / 16;  // of a block: 16 rows a warp

/// Elements from row to row of a tile with D columns: 8 more, so that the 8 rows of a matrix that
/// ldmatrix loads at once are in different banks.
template <int D>
constexpr int tile_pitch = D + 8;

template <int D>
constexpr std::size_t tile_bytes(int rows) {
  return sizeof(Bf16) * rows * tile_pitch<D>;
}

/// Begins to copy rows [first, first + N) of a head; those behind the last are zeros.
template <int N, int D>
__device__ void begin_tile(HeadRows<const Bf16> rows, int first, int time, Bf16* tile) {
  constexpr int chunks = D / 8;
  for (int i = threadIdx.x; i < N * chunks; i += flash_threads) {
    const int r = i / chunks, c = i % chunks * 8;
    if (first + r < time)
      cp_async_16(tile + r * tile_pitch<D> + c, rows.row(first + r) + c);
    else
      store(tile + r * tile_pitch<D> + c, make_uint4(0, 0, 0, 0));
  }
}

/// Two numbers, rounded; `low` stands first in memory.
__device__ inline unsigned rounded_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// sums += a b^T                                                  a (16,D), b (N,D), sums (16,N)
template <int N, int D>
__device__ void multiply_transposed(const Bf16* a, const Bf16* b, float (&sums)[N / 8][4]) {
  const int lane = threadIdx.x % 32;
  const Bf16* a_row = a + lane % 16 * tile_pitch<D> + lane / 16 * 8;
  const Bf16* b_row = b + (lane % 8 + lane / 16 * 8) * tile_pitch<D> + lane / 8 % 2 * 8;
  PG_UNROLL
  for (int k = 0; k < D; k += 16) {
    unsigned left[4], right[4];
    ldmatrix_x4(left, a_row + k);
    PG_UNROLL
    for (int n = 0; n < N; n += 16) {
      ldmatrix_x4(right, b_row + n * tile_pitch<D> + k);
      mma_16816(sums[n / 8], left, {right[0], right[1]});
      mma_16816(sums[n / 8 + 1], left, {right[2], right[3]});
    }
  }
}

/// sums += a b, where a's fragments are rounded here.             a (16,N), b (N,D), sums (16,D)
template <int N, int D>
__device__ void multiply(const float (&a)[N / 8][4], const Bf16* b, float (&sums)[D / 8][4]) {
  const int lane = threadIdx.x % 32;
  const Bf16* b_row = b + lane % 16 * tile_pitch<D> + lane / 16 * 8;
  PG_UNROLL
  for (int k = 0; k < N; k += 16) {
    const auto &low = a[k / 8], &high = a[k / 8 + 1];
    const unsigned left[4] = {rounded_pair(low[0], low[1]), rounded_pair(low[2], low[3]),
                              rounded_pair(high[0], high[1]), rounded_pair(high[2], high[3])};
    PG_UNROLL
    for (int n = 0; n < D; n += 16) {
      unsigned right[4];
      ldmatrix_x4_transposed(right, b_row + k * tile_pitch<D> + n);
      mma_16816(sums[n / 8], left, {right[0], right[1]});
      mma_16816(sums[n / 8 + 1], left, {right[2], right[3]});
    }
  }
}

/// Rounds a warp's 16 rows, times a factor for each half of 8, and writes those before `time`.
template <int D>
__device__ void write_rows(const float (&sums)[D / 8][4], const float (&factor)[2],
                           HeadRows<Bf16> rows, int first, int time) {
  const int lane = threadIdx.x % 32;
  PG_UNROLL
  for (int half = 0; half < 2; ++half) {
    const int r = first + lane / 4 + 8 * half;
    if (r >= time) continue;
    PG_UNROLL
    for (int n = 0; n < D / 8; ++n)
      store(rows.row(r) + 8 * n + 2 * (lane % 4),
            rounded_pair(factor[half] * sums[n][2 * half], factor[half] * sums[n][2 * half + 1]));
  }
}

/// Calls `kernel.template operator()<D>()` with the size of a head.
template <class Kernel>
void dispatch_head(int size, Kernel&& kernel) {
  switch (size) {
    case 16: return kernel.template operator()<16>();
    case 32: return kernel.template operator()<32>();
    case 48: return kernel.template operator()<48>();
    case 64: return kernel.template operator()<64>();
    case 80: return kernel.template operator()<80>();
    case 96: return kernel.template operator()<96>();
    case 112: return kernel.template operator()<112>();
    default: return kernel.template operator()<128>();
  }
}

}  // namespace paragrad::cuda
