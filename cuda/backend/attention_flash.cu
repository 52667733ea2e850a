// Attention by tensor cores: a block has 64 queries of a head, and takes 64 keys and values at a
// time. Scores and shares stay in registers; a T x T matrix is nowhere.
// Not here: the gradient (attention_flash_backward.cu). Chapter 03; Dao 2023, "FlashAttention-2".
#include <cmath>

#include "cuda/backend/flash_tiles.h"

namespace paragrad::cuda {

namespace {

constexpr int keys = 64;

/// What a lane knows of its two rows: of the scores so far the largest, and its own sum of
/// 2^(score - largest), where scores have been multiplied by the logarithm to base 2 of e.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  /// Turns scores into shares, yet to be divided by the sum, and shrinks what has been summed.
  template <int D>
  __device__ void add(float scale, float (&scores)[keys / 8][4], float (&sums)[D / 8][4]) {
    PG_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
      PG_UNROLL
      for (int i = 0; i < keys / 4; ++i) largest = max(largest, scores[i / 2][2 * half + i % 2]);
      const float before = top[half];
      top[half] = max(before, scale * group_max<4>(largest));
      const float shrink = exp2f(before - top[half]);  // 0 if that was -inf
      sum[half] *= shrink;
      PG_UNROLL
      for (int i = 0; i < keys / 4; ++i) {
        float& score = scores[i / 2][2 * half + i % 2];
        score = exp2f(scale * score - top[half]);
        sum[half] += score;
      }
      PG_UNROLL
      for (int i = 0; i < D / 4; ++i) sums[i / 2][2 * half + i % 2] *= shrink;
    }
  }
};

/// -inf for keys behind the query, in the tile where keys and queries begin alike.
__device__ void hide_later(int row, float (&scores)[keys / 8][4]) {
  const int lane = threadIdx.x % 32;
  PG_UNROLL
  for (int i = 0; i < keys / 2; ++i) {
    const int key = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    if (key > row + lane / 4 + i % 4 / 2 * 8) scores[i / 4][i % 4] = -INFINITY;
  }
}

/// While shares are computed, the next keys arrive; while scores are, the next values.
template <int D>
__global__ void __launch_bounds__(flash_threads)
    flash_kernel(AttentionSizes s, const Bf16* qkv, Bf16* y, float* normalizer) {
  Bf16* q = dynamic_shared<Bf16>();
  Bf16 *k = q + flash_rows * tile_pitch<D>, *v = k + keys * tile_pitch<D>;
  const int tiles = gridDim.x / s.all_heads(), head = blockIdx.x % s.all_heads();
  const int first = (tiles - 1 - blockIdx.x / s.all_heads()) * flash_rows;  // the longest begin
  const int row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;           // the warp's first
  auto begin = [&](int part, int start, Bf16* tile) {
    if (start <= first) begin_tile<keys, D>(s.rows(qkv, 3, part, head), start, s.time, tile);
    cp_async_commit();
  };
  begin_tile<flash_rows, D>(s.rows(qkv, 3, 0, head), first, s.time, q);
  begin(1, 0, k);
  begin(2, 0, v);
  const float scale = s.scale * 1.44269504088896341f;  // 2^(log2(e) x) = e^x
  Softmax softmax;
  float sums[D / 8][4] = {};
  for (int start = 0; start <= first; start += keys) {
    float scores[keys / 8][4] = {};
    cp_async_wait<1>();
    __syncthreads();  // keys are here
    multiply_transposed<keys, D>(q + row * tile_pitch<D>, k, scores);
    __syncthreads();  // nobody needs them any more
    begin(1, start + keys, k);
    if (start == first) hide_later(row, scores);
    softmax.add<D>(scale, scores, sums);
    cp_async_wait<1>();
    __syncthreads();  // values are here
    multiply<keys, D>(scores, v, sums);
    __syncthreads();  // nobody needs them any more
    begin(2, start + keys, v);
  }
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    const float sum = group_sum<4>(softmax.sum[half]);
    const int query = first + row + lane / 4 + 8 * half;
    inverse[half] = 1 / sum;
    if (lane % 4 == 0 && query < s.time)
      normalizer[std::int64_t{head} * s.time + query] =
          softmax.top[half] * 0.693147180559945309f + logf(sum);
  }
  write_rows<D>(sums, inverse, s.rows(y, 1, 0, head), first + row, s.time);
}

}  // namespace

void flash_attention(const CudaBackend& backend, const AttentionSizes& s, Attended a) {
  const dim3 grid(blocks_for(s.time, flash_rows) * s.all_heads());
  dispatch_head(s.size, [&]<int D>() {
    backend.run_shared(flash_kernel<D>, grid, dim3(flash_threads),
                       tile_bytes<D>(flash_rows + 2 * keys), s, a.qkv, a.y, a.normalizer);
  });
}

}  // namespace paragrad::cuda
