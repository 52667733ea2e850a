// Attention's gradient by tensor cores, from the normalizers: a pass for queries and one for keys
// and values. Each sum has one owner, so that its order is fixed; scores are computed twice for it.
// Not here: the values (attention_flash.cu). Chapter 03; Dao et al. 2022, algorithm 4.
#include <cmath>

#include "cuda/backend/flash_tiles.h"

namespace paragrad::cuda {

namespace {

/// Rows that a block meets at a time: as many as registers allow beside the sums.
template <int D>
constexpr int met_rows = D <= 64 ? 64 : 32;

/// Turns scores into P, and dP, which begins as dy v^T, into dS = P (dP - dot). Rows of both are
/// keys and columns queries, or the other way around, from these on; the lane's own.
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

/// The gradients of 64 keys and values of a head, or of 64 queries; see attention_plain.cu.
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
  const int row = threadIdx.x / 32 * 16, lane = threadIdx.x % 32;  // the warp's first
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
    __syncthreads();  // nobody needs the tiles any more
  }
  const float scale[2] = {s.scale, s.scale}, one[2] = {1, 1};
  write_rows<D>(sums, scale, s.rows(dqkv, 3, of_keys, head), first + row, s.time);
  if constexpr (of_keys)
    write_rows<D>(value_sums, one, s.rows(dqkv, 3, 2, head), first + row, s.time);
}

}  // namespace

void flash_attention_backward(const CudaBackend& backend, const AttentionSizes& s,
                              AttentionGradient a) {
  const dim3 grid(blocks_for(s.time, flash_rows) * s.all_heads());
  dispatch_head(s.size, [&]<int D>() {
    for (auto kernel : {flash_backward_kernel<D, false>, flash_backward_kernel<D, true>})
      backend.run_shared(kernel, grid, dim3(flash_threads),
                         tile_bytes<D>(2 * flash_rows + 2 * met_rows<D>), s, a.qkv, a.normalizer,
                         a.dot, a.dy, a.dqkv);
  });
}

}  // namespace paragrad::cuda
