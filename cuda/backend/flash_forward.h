// The kernel of attention by tensor cores: a block has 64 or 128 queries of a head, and takes 64
// keys and values at a time, in two buffers. Scores and shares stay in registers; there is no T x T
// matrix.
// Not here: gradients (flash_backward.h); products of tiles (attention_flash.cu and, for Hopper,
// attention_hopper.cu).
// Chapter 03; Dao 2023, "FlashAttention-2".
#pragma once

#include "cuda/backend/flash_tiles.h"

namespace plangrad::cuda {

// What registers hold without spills: the groups of 16 queries that a warp has, whether their
// fragments stay in registers, and how many keys it takes at a time.
template <class P, int D>
constexpr int query_groups = D <= 112 && !P::by_group ? 2 : 1;
template <class P, int D>
constexpr bool keeps_queries = !P::by_group && (D <= 64 || D == 128);
template <int D>
constexpr int keys_at_once = D <= 80 ? 64 : 32;

/// A lane's state of its two rows in a group: the largest score so far, and the lane's own sum of
/// 2^(score - largest). Scores are multiplied by log2(e) beforehand.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  /// Turns scores into shares, not yet divided by the sum, and scales the sums so far down.
  template <int keys, int D>
  __device__ void add(float scale, float (&scores)[keys / 8][4], float (&sums)[D / 8][4]) {
    PG_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
      PG_UNROLL
      for (int i = 0; i < keys / 4; ++i) largest = max(largest, scores[i / 2][2 * half + i % 2]);
      const float before = top[half];
      top[half] = max(before, scale * warp_max<4>(largest));
      const float shrink = fast_exp2(before - top[half]);  // 0 if that was -inf
      sum[half] *= shrink;
      PG_UNROLL
      for (int i = 0; i < keys / 4; ++i) {
        float& score = scores[i / 2][2 * half + i % 2];
        score = fast_exp2(scale * score - top[half]);
        sum[half] += score;
      }
      PG_UNROLL
      for (int i = 0; i < D / 4; ++i) sums[i / 2][2 * half + i % 2] *= shrink;
    }
  }
};

/// Computes attention.
template <class P, int D>
__global__ void __launch_bounds__(32 * P::warps)
    flash_kernel(AttentionSizes s, const Bf16* qkv, Bf16* y, float* normalizer) {
  constexpr int R = query_groups<P, D>, rows = block_rows<P, R>, keys = keys_at_once<D>;
  const auto [head, from_longest] = block_place(s, rows);
  const int first = ((s.time - 1) / rows - from_longest) * rows;
  const int warp_row = threadIdx.x / 32 * 16 * R, row = first + warp_row;  // the warp's first row
  const Together together = rows_together<P, R>(first);
  Bf16 *q = P::first_tile(dynamic_shared<Bf16>()), *tiles = q + tile_size<P, D>(rows);
  auto tile = [&](int buffer, int part) {
    return tiles + tile_size<P, D>(keys) * (2 * buffer + part);
  };
  auto begin = [&](int start, int buffer) {
    begin_tile<P, keys, D>(s.rows(qkv, 3, 1, head), start, s.time, tile(buffer, 0));
    begin_tile<P, keys, D>(s.rows(qkv, 3, 2, head), start, s.time, tile(buffer, 1));
  };
  begin_tile<P, rows, D>(s.rows(qkv, 3, 0, head), first, s.time, q);
  cp_async_commit();
  begin(0, 0);
  cp_async_commit();
  cp_async_wait<1>();
  __syncthreads();  // queries have arrived
  const OwnRows<P, R, D, keeps_queries<P, D>> queries(q, warp_row);

  Softmax softmax[R];
  Fragments<R, D> sums = {};
  for_tiles<P>(0, min(s.time, first + rows), keys, begin, [&](int start, int buffer) {
    if (start >= together.end || together.first >= s.time) return;  // no query sees these keys
    Fragments<R, keys> scores = {};
    P::start(scores);
    P::template multiply_transposed<keys>(queries, tile(buffer, 0), scores);
    P::finish(scores);
    if (start + keys > row) hide_later_keys<false, keys>(start - row, scores);
    PG_UNROLL
    for (int r = 0; r < R; ++r)
      softmax[r].template add<keys, D>(s.scale * log2_e, scores[r], sums[r]);
    P::start(sums);
    P::template multiply<keys, D>(scores, tile(buffer, 1), sums);
    P::finish(sums);
  });
  PG_UNROLL
  for (int i = 0; i < 2 * R; ++i) {
    const int r = i / 2, half = i % 2, query = row + fragment_row(r, half);
    const float sum = warp_sum<4>(softmax[r].sum[half]);
    PG_UNROLL
    for (int n = 0; n < D / 4; ++n) sums[r][n / 2][2 * half + n % 2] *= 1 / sum;
    if (threadIdx.x % 4 == 0 && query < s.time)
      normalizer[std::int64_t{head} * s.time + query] = softmax[r].top[half] / log2_e + logf(sum);
  }
  write_rows<D>(1, sums, s.rows(y, 1, 0, head), row, s.time);
}

template <class P, int D>
void run_flash(const AttentionWork& work) {
  const auto& [backend, s, qkv, y, normalizer, dy, dqkv] = work;
  constexpr int rows = block_rows<P, query_groups<P, D>>;
  const int elements = tile_size<P, D>(rows + 4 * keys_at_once<D>);
  backend.run(flash_kernel<P, D>, flash_grid<P>(s, rows, elements), s, qkv, y, normalizer);
}

}  // namespace plangrad::cuda
