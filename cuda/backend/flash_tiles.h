// The interface of causal attention's families of kernels, and what those by tensor cores are made
// of: the places of a head's rows, tiles of bf16 in shared memory, the loop in which the next tiles
// arrive while the present ones are multiplied, and the blocks' order.
// Not here: attention's formulas (flash_forward.h and flash_backward.h); products of tiles
// (attention_flash.cu by warps, attention_hopper.cu by Hopper's own instructions).
// Chapters 03 and 12; PTX ISA, mma; Dao 2023, "FlashAttention-2".
#pragma once

#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

/// The rows of one head in one tensor.
template <class T>
struct HeadRows {
  T* data;
  std::int64_t pitch;

  __device__ T* row(std::int64_t t) const { return data + t * pitch; }
};

/// Sizes. Heads are numbered through the batch: head h of sequence b is b H + h, as in (B,H,T).
struct AttentionSizes {
  int batch, time, heads, size;
  float scale;  ///< 1 / sqrt(size)

  AttentionSizes(const Tensor& y, int heads);

  __host__ __device__ int all_heads() const { return batch * heads; }
  /// The rows of a head in x (B,T,parts C), for example queries, keys, values: parts 0, 1, 2 of 3.
  template <class T>
  __device__ HeadRows<T> rows(T* x, int parts, int part, int head) const {
    const std::int64_t pitch = std::int64_t{parts} * heads * size;
    return {x + head / heads * time * pitch + (part * heads + head % heads) * size, pitch};
  }
};

/// Attention; or its gradient, if `dqkv` is defined.
struct AttentionWork {
  const CudaBackend& backend;
  const AttentionSizes& sizes;
  Tensor qkv, y, normalizer, dy = {}, dqkv = {};
};

/// Whether tensor cores can compute it: bf16, heads of 16, 32, 48, ... 128 values at addresses that
/// are multiples of 16 bytes. They multiply shares of attention, and gradients of scores, rounded
/// to bf16. Otherwise, everything is computed in f32.
bool flash_fits(const AttentionSizes& sizes, std::initializer_list<Tensor> tensors);
void flash_attention(const AttentionWork& work);

/// Computes it by wgmma, for heads of this size on GPUs of compute capability 9.0.
constexpr int hopper_head = 64;
void hopper_attention(const AttentionWork& work);

using Bf16 = __nv_bfloat16;

/// A warp's fragments of a matrix (16 R,N), with the layout of mma_16816 in device_gpu.h.
template <int R, int N>
using Fragments = float[R][N / 8][4];

/// A block's head, and the number of its tile of rows in the head, counted from the longest one.
struct BlockPlace {
  int head, from_longest;
};

/// Blocks begin in the order of their indices. So that the last ones to end are short, those with
/// the longest rows come first; but only among 32 heads, whose keys and values the L2 cache holds.
__device__ inline BlockPlace block_place(const AttentionSizes& s, int rows) {
  constexpr int at_once = 32;
  const int tiles = (s.time + rows - 1) / rows, index = static_cast<int>(blockIdx.x);
  const int first = index / (at_once * tiles) * at_once;
  const int heads = min(at_once, s.all_heads() - first), i = index - first * tiles;
  return {first + i % heads, i / heads};
}

// The kernels take their products from a class P: WarpProducts of attention_flash.cu, or
// GroupProducts of attention_hopper.cu. Each warp has R groups of 16 rows of each result. P says
// how many warps a block has, how tiles lie in shared memory, and which rows are multiplied
// together.

/// The number of elements of a tile with that many rows.
template <class P, int D>
constexpr int tile_size(int rows) {
  return rows * P::template pitch<D>;
}

/// Starts a copy of rows [first, first + N) of a head, with zeros after the last row.
template <class P, int N, int D>
__device__ void begin_tile(HeadRows<const Bf16> rows, int first, int time, Bf16* tile) {
  constexpr int pieces = D / 8, all = N * pieces, threads = 32 * P::warps;
  PG_UNROLL
  for (int n = 0; n < (all + threads - 1) / threads; ++n) {
    const int i = n * threads + threadIdx.x, r = i / pieces, c = i % pieces * 8;
    if (all % threads > 0 && i >= all) return;
    cp_async_16_or_zeros(tile + P::template place<D>(r, c), rows.row(first + r) + c,
                         first + r < time);
  }
}

// [snippet tiles]
/// Calls multiply(start, buffer) for start = first, first + step, ... below `end`, with buffers 0
/// and 1 in turn, while begin(start + step, other buffer) copies. The caller has begun the first.
template <class P, class Begin, class Multiply>
__device__ void for_tiles(int first, int end, int step, Begin begin, Multiply multiply) {
  for (int start = first, buffer = 0; start < end; start += step, buffer ^= 1) {
    cp_async_wait<0>();
    P::publish();
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

/// Rounds fragments 2 k and 2 k + 1 to bf16: the left operand of mma_16816.
template <int N>
__device__ void round_fragments(const float (&x)[N][4], int k, unsigned (&left)[4]) {
  PG_UNROLL
  for (int i = 0; i < 4; ++i) {
    const float* pair = x[2 * k + i / 2] + i % 2 * 2;
    left[i] = rounded_pair(pair[0], pair[1]);
  }
}

/// A warp's own rows, the left operand of its products                                    (16 R,D)
/// If `kept`, their fragments stay in registers; otherwise, each product loads them again.
template <class P, int R, int D, bool kept>
struct OwnRows {
  const Bf16* corner;  // of the lane: where its row of the first fragment begins
  unsigned fragments[kept ? R : 1][kept ? D / 16 : 1][4];

  __device__ OwnRows(const Bf16* tile, int first)
      : corner(tile + P::template place<D>(first + threadIdx.x % 16, threadIdx.x % 32 / 16 * 8)) {
    if constexpr (kept) {
      PG_UNROLL
      for (int i = 0; i < R * D / 16; ++i) load(i % R, i / R, fragments[i % R][i / R]);
    }
  }
  __device__ void load(int r, int k, unsigned (&fragment)[4]) const {
    ldmatrix_x4(fragment, P::template fragment_at<D>(corner, r, k));
  }
  __device__ void get(int r, int k, unsigned (&fragment)[4]) const {
    if constexpr (kept)
      memcpy(fragment, fragments[r][k], sizeof fragment);
    else
      load(r, k, fragment);
  }
};

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

/// The rows of a block whose warps have R groups of 16.
template <class P, int R>
constexpr int block_rows = P::warps * 16 * R;

/// Rows [first, end), whose products this warp and its companions compute or leave out together.
struct Together {
  int first, end;
};
template <class P, int R>
__device__ Together rows_together(int first) {
  constexpr int rows = P::by_group ? 64 : 16 * R;
  int warp = static_cast<int>(threadIdx.x) / 32;
  if (P::by_group) warp = __shfl_sync(~0u, warp, 0);  // shows nvcc that all lanes go together
  const int own = first + warp * 16 * R / rows * rows;
  return {own, own + rows};
}

/// The grid with a block for `rows` rows of each head, and `elements` in shared memory.
template <class P>
Grid flash_grid(const AttentionSizes& s, int rows, int elements) {
  const std::size_t to_align = P::by_group ? 1024 : 0;
  return {blocks_for(s.time, rows) * s.all_heads(), 32 * P::warps,
          elements * sizeof(Bf16) + to_align};
}

}  // namespace plangrad::cuda
