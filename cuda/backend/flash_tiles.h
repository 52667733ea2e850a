// What attention by tensor cores is made of: tiles of bf16 in shared memory, their products, the
// loop in which the next tiles arrive while the present ones are multiplied, and the blocks' order.
// Not here: attention's formulas (attention_flash.cu and attention_flash_backward.cu).
// Chapter 12; PTX ISA, matrix multiply-accumulate operation with mma; Dao 2023, "FlashAttention-2".
#pragma once

#include <cmath>
#include <cstring>

#include "cuda/backend/attention.h"

namespace paragrad::cuda {

using Bf16 = __nv_bfloat16;

// A warp has R groups of 16 rows of each result. With R = 2, each fragment of a tile that it loads
// from shared memory serves two products of tensor cores; registers allow that for some sizes only.
constexpr int flash_warps = 4, flash_threads = 32 * flash_warps;
template <int R>
constexpr int flash_rows = flash_warps * 16 * R;

/// A warp's fragments of a matrix (16 R,N), with the layout of mma_16816 in device_gpu.h.
template <int R, int N>
using Fragments = float[R][N / 8][4];

/// The factor of exponents that turns powers of e into powers of 2, which GPUs compute.
constexpr float log2_e = 1.44269504088896341f;

/// The distance of rows in a tile with D columns: 8 elements more, so that the 8 rows of a matrix
/// that ldmatrix loads at once are in different banks.
template <int D>
constexpr int tile_pitch = D + 8;

/// The number of elements of a tile with that many rows.
template <int D>
constexpr int tile_size(int rows) {
  return rows * tile_pitch<D>;
}

/// A block's head, and the number of its tile of rows in the head, counted from the longest one.
struct BlockPlace {
  int head, from_longest;
};

/// Blocks begin in the order of their indices. So that the last ones to end are short, those with
/// the longest rows come first; but only among 32 heads, whose keys and values the L2 cache holds.
__device__ inline BlockPlace block_place(const AttentionSizes& s, int rows) {
  constexpr int together = 32;
  const int tiles = (s.time + rows - 1) / rows, index = static_cast<int>(blockIdx.x);
  const int first = index / (together * tiles) * together;
  const int heads = min(together, s.all_heads() - first), i = index - first * tiles;
  return {first + i % heads, i / heads};
}

/// Starts a copy of rows [first, first + N) of a head, with zeros after the last row.
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

// [snippet tiles]
/// Calls multiply(start, buffer) for start = first, first + step, ... below `end`, with buffers 0
/// and 1 in turn, while begin(start + step, other buffer) copies. The caller has begun the first.
template <class Begin, class Multiply>
__device__ void for_tiles(int first, int end, int step, Begin begin, Multiply multiply) {
  for (int start = first, buffer = 0; start < end; start += step, buffer ^= 1) {
    cp_async_wait<0>();
    __syncthreads();  // the tiles have arrived, and all threads have read the other buffer
    if (start + step < end) begin(start + step, buffer ^ 1);
    cp_async_commit();
    multiply(start, buffer);
  }
}
// [end snippet]

/// Rounds two numbers to bf16 and packs them; `low` comes first in memory.
__device__ inline unsigned rounded_pair(float low, float high) {
  const __nv_bfloat162 pair = __floats2bfloat162_rn(low, high);
  unsigned bits;
  memcpy(&bits, &pair, sizeof bits);
  return bits;
}

/// A warp's own rows, the left operand of its products                                    (16 R,D)
/// If `kept`, their fragments stay in registers; otherwise, each product loads them again.
template <int R, int D, bool kept>
struct OwnRows {
  const Bf16* row;
  unsigned fragments[kept ? R : 1][kept ? D / 16 : 1][4];

  __device__ explicit OwnRows(const Bf16* first)
      : row(first + threadIdx.x % 16 * tile_pitch<D> + threadIdx.x % 32 / 16 * 8) {
    if constexpr (kept) {
      PG_UNROLL
      for (int i = 0; i < R * D / 16; ++i) load(i % R, i / R, fragments[i % R][i / R]);
    }
  }
  __device__ void load(int r, int k, unsigned (&fragment)[4]) const {
    ldmatrix_x4(fragment, row + tile_size<D>(16 * r) + 16 * k);
  }
  __device__ void get(int r, int k, unsigned (&fragment)[4]) const {
    if constexpr (kept)
      memcpy(fragment, fragments[r][k], sizeof fragment);
    else
      load(r, k, fragment);
  }
};

/// sums += a b^T                                                a (16 R,D), b (N,D), sums (16 R,N)
template <int N, int R, int D, bool kept>
__device__ void multiply_transposed(const OwnRows<R, D, kept>& a, const Bf16* b,
                                    Fragments<R, N>& sums) {
  const int lane = threadIdx.x % 32;
  const Bf16* b_row = b + (lane % 8 + lane / 16 * 8) * tile_pitch<D> + lane / 8 % 2 * 8;
  PG_UNROLL
  for (int k = 0; k < D / 16; ++k) {
    unsigned left[R][4], right[4];
    PG_UNROLL
    for (int r = 0; r < R; ++r) a.get(r, k, left[r]);
    PG_UNROLL
    for (int n = 0; n < N / 8; n += 2) {
      ldmatrix_x4(right, b_row + tile_size<D>(8 * n) + 16 * k);
      PG_UNROLL
      for (int r = 0; r < R; ++r) {
        mma_16816(sums[r][n], left[r], {right[0], right[1]});
        mma_16816(sums[r][n + 1], left[r], {right[2], right[3]});
      }
    }
  }
}

/// sums += a b, with a's fragments rounded to bf16.             a (16 R,N), b (N,D), sums (16 R,D)
template <int N, int D, int R>
__device__ void multiply(const Fragments<R, N>& a, const Bf16* b, Fragments<R, D>& sums) {
  const int lane = threadIdx.x % 32;
  const Bf16* b_row = b + lane % 16 * tile_pitch<D> + lane / 16 * 8;
  PG_UNROLL
  for (int k = 0; k < N / 8; k += 2) {
    unsigned left[R][4], right[4];
    PG_UNROLL
    for (int i = 0; i < 4 * R; ++i) {
      const float* pair = a[i / 4][k + i % 4 / 2] + i % 2 * 2;
      left[i / 4][i % 4] = rounded_pair(pair[0], pair[1]);
    }
    PG_UNROLL
    for (int n = 0; n < D / 8; n += 2) {
      ldmatrix_x4_transposed(right, b_row + tile_size<D>(8 * k) + 8 * n);
      PG_UNROLL
      for (int r = 0; r < R; ++r) {
        mma_16816(sums[r][n], left[r], {right[0], right[1]});
        mma_16816(sums[r][n + 1], left[r], {right[2], right[3]});
      }
    }
  }
}

/// The row of a lane's fragment elements 2 i and 2 i + 1 in group r, from the warp's first row on.
__device__ inline int fragment_row(int r, int i) { return 16 * r + threadIdx.x % 32 / 4 + 8 * i; }
/// The column of element e of a lane's fragment n.
__device__ inline int fragment_column(int n, int e) {
  return 8 * n + 2 * (threadIdx.x % 4) + e % 2;
}

/// Sets scores of keys after their query to -inf, whose share is 0. Rows are queries and columns
/// keys, or the other way around; `distance` is the number of the first column minus the first row.
template <bool rows_are_keys, int N, int R>
__device__ void hide_later_keys(int distance, Fragments<R, N>& scores) {
  PG_UNROLL
  for (int i = 0; i < R * N / 2; ++i) {
    const int r = i / (N / 2), n = i / 4 % (N / 8), e = i % 4;
    const int ahead = distance + fragment_column(n, e) - fragment_row(r, e / 2);
    if (rows_are_keys ? ahead < 0 : ahead > 0) scores[r][n][e] = -INFINITY;
  }
}

/// Writes a warp's rows, if before `time`, times a factor and rounded.
template <int D, int R>
__device__ void write_rows(float factor, const Fragments<R, D>& sums, HeadRows<Bf16> rows,
                           int first, int time) {
  PG_UNROLL
  for (int i = 0; i < 2 * R; ++i) {
    const int r = i / 2, half = i % 2, row = first + fragment_row(r, half);
    if (row >= time) continue;
    PG_UNROLL
    for (int n = 0; n < D / 8; ++n)
      store(rows.row(row) + fragment_column(n, 0),
            rounded_pair(factor * sums[r][n][2 * half], factor * sums[r][n][2 * half + 1]));
  }
}

/// The grid with a block for `rows` rows of each head, and `elements` in shared memory.
inline Grid flash_grid(const AttentionSizes& s, int rows, int elements) {
  return {blocks_for(s.time, rows) * s.all_heads(), flash_threads, elements * sizeof(Bf16)};
}

/// Calls `kernel.template operator()<D>()` with the size of a head.
template <int D = 16, class Kernel>
void dispatch_head(int size, Kernel&& kernel) {
  if constexpr (D < 128)
    if (size != D) return dispatch_head<D + 16>(size, kernel);
  kernel.template operator()<D>();
}

}  // namespace paragrad::cuda
