// The interface of causal attention's two families of kernels, and definitions that they share: the
// places of a head's rows, and the tiles that tensor cores multiply.
// Not here: the kernels (attention.cu in f32, attention_flash.cu by tensor cores).
// Chapters 02 and 03.
#pragma once

#include <cstring>

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

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

/// Whether tensor cores can compute it: bf16, heads of 16, 32, 48, ... 128 values at addresses that
/// are multiples of 16 bytes. They multiply shares of attention, and gradients of scores, rounded
/// to bf16. Otherwise, everything is computed in f32.
bool flash_fits(const AttentionSizes& sizes, std::initializer_list<Tensor> tensors);
void flash_attention(const CudaBackend& backend, const AttentionSizes& sizes, const Tensor& qkv,
                     const Tensor& y, const Tensor& normalizer);
/// Computes dqkv by tensor cores; `dot` (B,H,T) is the sum of y dy over each row.
void flash_attention_backward(const CudaBackend& backend, const AttentionSizes& sizes,
                              const Tensor& qkv, const Tensor& normalizer, const Tensor& dot,
                              const Tensor& dy, const Tensor& dqkv);

// ---- tiles of bf16 in shared memory, and their products by tensor cores. A warp has 16 rows of a
// result, in fragments with the layout of mma_16816 (cuda/launch/device_gpu.h).
// source: PTX ISA, matrix multiply-accumulate operation with mma

using Bf16 = __nv_bfloat16;

constexpr int flash_rows = 64, flash_threads = 32 * flash_rows / 16;  // per block: 16 rows per warp

/// The distance of rows in a tile with D columns: 8 elements more, so that the 8 rows of a matrix
/// that ldmatrix loads at once are in different banks.
template <int D>
constexpr int tile_pitch = D + 8;

template <int D>
constexpr std::size_t tile_bytes(int rows) {
  return sizeof(Bf16) * rows * tile_pitch<D>;
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

/// Rounds two numbers to bf16 and packs them; `low` comes first in memory.
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

/// sums += a b, with a's fragments rounded to bf16.               a (16,N), b (N,D), sums (16,D)
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

/// Writes a warp's 16 rows, if before `time`, rounded, each half of 8 rows times its own factor.
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

}  // namespace paragrad::cuda
