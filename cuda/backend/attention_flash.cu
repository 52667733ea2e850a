// Attention by tensor cores: a block has 64 queries of a head, and takes 64 keys and values at a
// time. Scores and shares stay in registers; there is no T x T matrix. Gradients are computed from
// normalizers, in a pass for queries and one for keys and values: each sum has one owner, so that
// its order is fixed; in return, scores are computed twice.
// Chapter 03; Dao 2023, "FlashAttention-2"; Dao et al. 2022, "FlashAttention", algorithm 4.
#include <cmath>

#include "cuda/backend/attention.h"

namespace paragrad::cuda {

namespace {

constexpr int keys = 64;

/// A lane's state of its two rows: the largest score so far, and the lane's own sum of
/// 2^(score - largest). Scores are multiplied by log2(e) beforehand.
struct Softmax {
  float top[2] = {-INFINITY, -INFINITY}, sum[2] = {0, 0};

  /// Turns scores into shares, not yet divided by the sum, and scales the sums so far down.
  template <int D>
  __device__ void add(float scale, float (&scores)[keys / 8][4], float (&sums)[D / 8][4]) {
    PG_UNROLL
    for (int half = 0; half < 2; ++half) {
      float largest = -INFINITY;
      PG_UNROLL
      for (int i = 0; i < keys / 4; ++i) largest = max(largest, scores[i / 2][2 * half + i % 2]);
      const float before = top[half];
      top[half] = max(before, scale * warp_max<4>(largest));
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

/// Sets scores of keys after the query to -inf, in a tile whose keys and queries start together.
__device__ void hide_later(int row, float (&scores)[keys / 8][4]) {
  const int lane = threadIdx.x % 32;
  PG_UNROLL
  for (int i = 0; i < keys / 2; ++i) {
    const int key = 8 * (i / 4) + 2 * (lane % 4) + i % 2;
    if (key > row + lane / 4 + i % 4 / 2 * 8) scores[i / 4][i % 4] = -INFINITY;
  }
}

/// Computes attention. The next keys arrive while shares are computed, values while scores are.
template <int D>
__global__ void __launch_bounds__(flash_threads)
    flash_kernel(AttentionSizes s, const Bf16* qkv, Bf16* y, float* normalizer) {
  Bf16* q = dynamic_shared<Bf16>();
  Bf16 *k = q + flash_rows * tile_pitch<D>, *v = k + keys * tile_pitch<D>;
  const int tiles = gridDim.x / s.all_heads(), head = blockIdx.x % s.all_heads();
  const int first = (tiles - 1 - blockIdx.x / s.all_heads()) * flash_rows;  // longest blocks first
  const int row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;           // the warp's first row
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
    __syncthreads();  // keys have arrived
    multiply_transposed<keys, D>(q + row * tile_pitch<D>, k, scores);
    __syncthreads();  // all threads have read them
    begin(1, start + keys, k);
    if (start == first) hide_later(row, scores);
    softmax.add<D>(scale, scores, sums);
    cp_async_wait<1>();
    __syncthreads();  // values have arrived
    multiply<keys, D>(scores, v, sums);
    __syncthreads();  // all threads have read them
    begin(2, start + keys, v);
  }
  float inverse[2];
  for (int half = 0; half < 2; ++half) {
    const float sum = warp_sum<4>(softmax.sum[half]);
    const int query = first + row + lane / 4 + 8 * half;
    inverse[half] = 1 / sum;
    if (lane % 4 == 0 && query < s.time)
      normalizer[std::int64_t{head} * s.time + query] =
          softmax.top[half] * 0.693147180559945309f + logf(sum);
  }
  write_rows<D>(sums, inverse, s.rows(y, 1, 0, head), first + row, s.time);
}

/// The number of rows that a block takes at a time: as many as registers allow beside the sums.
template <int D>
constexpr int met_rows = D <= 64 ? 64 : 32;

/// Turns the lane's scores into P, and dP, which is dy v^T at first, into dS = P (dP - dot). Rows
/// are keys and columns queries, or the other way around; these arguments are the first of each.
template <bool of_keys, int N>
__device__ void to_slopes(const AttentionSizes& s, const float* normalizer, const float* dot,
                          int row, int column, float (&p)[N / 8][4], float (&ds)[N / 8][4]) {
  constexpr float log2_e = 1.44269504088896341f;
  PG_UNROLL
  for (int n = 0; n < N / 8; ++n) {
    PG_UNROLL
    for (int e = 0; e < 4; ++e) {
      const int r = row + e / 2 * 8, c = column + 8 * n + e % 2;
      const int query = of_keys ? c : r, key = of_keys ? r : c, at = min(query, s.time - 1);
      const bool visible = key <= query && query < s.time;
      const float share = exp2f((s.scale * p[n][e] - normalizer[at]) * log2_e);
      p[n][e] = visible ? share : 0;
      ds[n][e] = visible ? share * (ds[n][e] - dot[at]) : 0;
    }
  }
}

/// The gradients of 64 keys and values of a head, or of 64 queries; see attention.cu.
template <int D, bool of_keys>
__global__ void __launch_bounds__(flash_threads)
    flash_backward_kernel(AttentionSizes s, const Bf16* qkv, const float* normalizer,
                          const float* dot, const Bf16* dy, Bf16* dqkv) {
  constexpr int met = met_rows<D>;
  Bf16* own = dynamic_shared<Bf16>();
  Bf16 *own_value = own + flash_rows * tile_pitch<D>,
       *other = own_value + flash_rows * tile_pitch<D>;
  Bf16* other_value = other + met * tile_pitch<D>;
  const int head = blockIdx.x % s.all_heads(), first = blockIdx.x / s.all_heads() * flash_rows;
  const int row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;  // the warp's first row
  const HeadRows<const Bf16> q = s.rows(qkv, 3, 0, head), k = s.rows(qkv, 3, 1, head);
  const HeadRows<const Bf16> v = s.rows(qkv, 3, 2, head), d = s.rows(dy, 1, 0, head);
  begin_tile<flash_rows, D>(of_keys ? k : q, first, s.time, own);
  begin_tile<flash_rows, D>(of_keys ? v : d, first, s.time, own_value);
  normalizer += std::int64_t{head} * s.time;
  dot += std::int64_t{head} * s.time;

  float sums[D / 8][4] = {}, value_sums[of_keys ? D / 8 : 1][4] = {};
  const int begin = of_keys ? first : 0, end = min(s.time, of_keys ? s.time : first + flash_rows);
  for (int start = begin; start < end; start += met) {
    float p[met / 8][4] = {}, ds[met / 8][4] = {};
    begin_tile<met, D>(of_keys ? q : k, start, s.time, other);
    begin_tile<met, D>(of_keys ? d : v, start, s.time, other_value);
    cp_async_commit();
    cp_async_wait<0>();
    __syncthreads();  // the tiles are complete
    multiply_transposed<met, D>(own + row * tile_pitch<D>, other, p);
    multiply_transposed<met, D>(own_value + row * tile_pitch<D>, other_value, ds);
    to_slopes<of_keys, met>(s, normalizer, dot, first + row + lane / 4, start + 2 * (lane % 4), p,
                            ds);
    multiply<met, D>(ds, other, sums);
    if constexpr (of_keys) multiply<met, D>(p, other_value, value_sums);
    __syncthreads();  // all threads have read the tiles
  }
  const float scale[2] = {s.scale, s.scale}, one[2] = {1, 1};
  write_rows<D>(sums, scale, s.rows(dqkv, 3, of_keys, head), first + row, s.time);
  if constexpr (of_keys)
    write_rows<D>(value_sums, one, s.rows(dqkv, 3, 2, head), first + row, s.time);
}

/// The grid with a block for 64 rows of each head, with `rows` rows of tiles in shared memory.
template <int D>
Grid grid_for(const AttentionSizes& s, int rows) {
  return {blocks_for(s.time, flash_rows) * s.all_heads(), flash_threads, tile_bytes<D>(rows)};
}

/// Calls `kernel.template operator()<D>()` with the size of a head.
template <int D = 16, class Kernel>
void dispatch_head(int size, Kernel&& kernel) {
  if constexpr (D < 128)
    if (size != D) return dispatch_head<D + 16>(size, kernel);
  kernel.template operator()<D>();
}

}  // namespace

void flash_attention(const CudaBackend& backend, const AttentionSizes& s, const Tensor& qkv,
                     const Tensor& y, const Tensor& normalizer) {
  dispatch_head(s.size, [&]<int D>() {
    backend.run(flash_kernel<D>, grid_for<D>(s, flash_rows + 2 * keys), s, qkv, y, normalizer);
  });
}

void flash_attention_backward(const CudaBackend& backend, const AttentionSizes& s,
                              const Tensor& qkv, const Tensor& normalizer, const Tensor& dot,
                              const Tensor& dy, const Tensor& dqkv) {
  dispatch_head(s.size, [&]<int D>() {
    for (auto kernel : {flash_backward_kernel<D, false>, flash_backward_kernel<D, true>})
      backend.run(kernel, grid_for<D>(s, 2 * flash_rows + 2 * met_rows<D>), s, qkv, normalizer, dot,
                  dy, dqkv);
  });
}

}  // namespace paragrad::cuda
