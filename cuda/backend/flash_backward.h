// The kernels of attention's gradients by tensor cores, computed from the normalizers, without a
// T x T matrix: a pass for queries, then one for keys and values. Each sum has one owner, so its
// order is fixed.
// Not here: attention itself (flash_forward.h); products of tiles (attention_flash.cu and, for
// Hopper, attention_hopper.cu).
// Chapter 03; Dao 2023, "FlashAttention-2", algorithm 2.
//
// Two passes compute scores and dP twice: 7 products, where one pass over the keys has 5. But then
// a query's dq has terms in several blocks. To add them in a fixed order, without waiting for each
// other, blocks would write the terms to memory in f32, to be summed later. For each query, with D
// numbers per head and blocks of 128 keys,
//   two passes need two products more:  2 * 2 D T / 2 = 2 T D operations
//   one pass writes and reads terms:    T / 2 / 128 * 2 * 4 D = T D / 32 bytes
// These are 64 operations for a byte, whatever T and D are. An H100 does 295 while it moves a byte
// (989 TFLOP/s and 3.35 TB/s in NVIDIA's data sheet); and memory for the terms grows as T^2.
#pragma once

#include "cuda/backend/flash_tiles.h"

namespace plangrad::cuda {

template <class P>
constexpr int met_rows = P::by_group ? 64 : 32;  // of other tiles, at a time

// What registers hold without spills, in either pass, and what 99 KiB of shared memory hold, which
// a block can have on every GPU since compute capability 8.0: the groups of 16 rows that a warp
// has, and whether their fragments stay in registers.
template <class P, int D, bool of_keys>
constexpr int own_groups = P::by_group || D > (of_keys ? 64 : 96) ? 1 : 2;
template <class P, int D, bool of_keys>
constexpr bool keeps_own = !P::by_group && (of_keys ? D > 64 && D < 112 : D <= 64 || D > 96);

/// What the gradients of a query's scores need of its whole row: a share is
/// 2^(log2(e) score - exponent), and dot is the sum of y dy. After the last query both are 0, as
/// are the rows of q and dy, so that nothing is added to a gradient.
struct alignas(8) QueryRow {
  float exponent, dot;
};

/// Computes a query's row; each 4 lanes have one.
template <int D>
__device__ QueryRow query_row(const AttentionSizes& s, int head, int query, const Bf16* y,
                              const Bf16* dy, const float* normalizer) {
  float sum = 0;
  if (query < s.time)
    for (int c = threadIdx.x % 4 * 8; c < D; c += 32) {
      const auto a = load<Pack<Bf16, 8>>(s.rows(y, 1, 0, head).row(query) + c);
      const auto b = load<Pack<Bf16, 8>>(s.rows(dy, 1, 0, head).row(query) + c);
      PG_UNROLL
      for (int i = 0; i < 8; ++i) sum += to_float(a.at[i]) * to_float(b.at[i]);
    }
  sum = warp_sum<4>(sum);
  if (query >= s.time) return {0, 0};
  return {log2_e * normalizer[std::int64_t{head} * s.time + query], sum};
}

/// Turns a score into P, and dP into dS = P (dP - dot).
__device__ inline void to_slope(float scale, QueryRow row, float& p, float& ds) {
  p = fast_exp2(scale * p - row.exponent);
  ds = p * (ds - row.dot);
}

/// dq = scale dS k, with dS = P (dP - dot), P the shares of attention, and dP = dy v^T; and the row
/// of each query, for the other pass. A block has 64 or 128 queries of a head.
template <class P, int D>
__global__ void __launch_bounds__(32 * P::warps)
    flash_backward_queries(AttentionSizes s, const Bf16* qkv, const Bf16* y,
                           const float* normalizer, const Bf16* dy, QueryRow* query_rows,
                           Bf16* dqkv) {
  constexpr int R = own_groups<P, D, false>, rows = block_rows<P, R>, keys = met_rows<P>;
  const auto [head, from_longest] = block_place(s, rows);
  const int tiles = (s.time + rows - 1) / rows, first = (tiles - 1 - from_longest) * rows;
  const int warp_row = threadIdx.x / 32 * 16 * R, row = first + warp_row;  // the warp's first row
  const Together together = rows_together<P, R>(first);
  Bf16 *q = P::first_tile(dynamic_shared<Bf16>()), *d = q + tile_size<P, D>(rows),
       *met = d + tile_size<P, D>(rows);
  auto tile = [&](int buffer, int part) {
    return met + tile_size<P, D>(keys) * (2 * buffer + part);
  };
  auto begin = [&](int start, int buffer) {
    begin_tile<P, keys, D>(s.rows(qkv, 3, 1, head), start, s.time, tile(buffer, 0));
    begin_tile<P, keys, D>(s.rows(qkv, 3, 2, head), start, s.time, tile(buffer, 1));
  };
  begin_tile<P, rows, D>(s.rows(qkv, 3, 0, head), first, s.time, q);
  begin_tile<P, rows, D>(s.rows(dy, 1, 0, head), first, s.time, d);
  cp_async_commit();
  begin(0, 0);
  cp_async_commit();
  QueryRow own[R][2];
  PG_UNROLL
  for (int i = 0; i < 2 * R; ++i) {
    const int query = row + fragment_row(i / 2, i % 2);
    own[i / 2][i % 2] = query_row<D>(s, head, query, y, dy, normalizer);
    if (threadIdx.x % 4 == 0)
      query_rows[std::int64_t{head} * tiles * rows + query] = own[i / 2][i % 2];
  }
  cp_async_wait<1>();
  __syncthreads();  // the block's own rows have arrived
  const OwnRows<P, R, D, keeps_own<P, D, false>> q_rows(q, warp_row);
  const OwnRows<P, R, D, keeps_own<P, D, false>> d_rows(d, warp_row);

  Fragments<R, D> dq = {};
  for_tiles<P>(0, min(s.time, first + rows), keys, begin, [&](int start, int buffer) {
    if (start >= together.end || together.first >= s.time) return;  // no query sees these keys
    Fragments<R, keys> p = {}, ds = {};
    P::start(p, ds);
    P::template multiply_transposed<keys>(q_rows, tile(buffer, 0), p);
    P::template multiply_transposed<keys>(d_rows, tile(buffer, 1), ds);
    P::finish(p, ds);
    if (start + keys > row) hide_later_keys<false, keys>(start - row, p);
    PG_UNROLL
    for (int i = 0; i < R * keys / 2; ++i) {
      const int r = i / (keys / 2), n = i / 4 % (keys / 8), e = i % 4;
      to_slope(s.scale * log2_e, own[r][e / 2], p[r][n][e], ds[r][n][e]);
    }
    P::start(dq);
    P::template multiply<keys, D>(ds, tile(buffer, 0), dq);
    P::finish(dq);
  });
  write_rows<D>(s.scale, dq, s.rows(dqkv, 3, 0, head), row, s.time);
}

/// dk = scale dS^T q and dv = P^T dy. A block has 64 or 128 keys and values of a head.
template <class P, int D>
__global__ void __launch_bounds__(32 * P::warps)
    flash_backward_keys(AttentionSizes s, const Bf16* qkv, const Bf16* dy,
                        const QueryRow* query_rows, int pitch, Bf16* dqkv) {
  constexpr int R = own_groups<P, D, true>, rows = block_rows<P, R>, queries = met_rows<P>;
  const auto [head, from_longest] = block_place(s, rows);
  const int first = from_longest * rows;
  const int warp_row = threadIdx.x / 32 * 16 * R, row = first + warp_row;  // the warp's first row
  const Together together = rows_together<P, R>(first);
  Bf16 *k = P::first_tile(dynamic_shared<Bf16>()), *v = k + tile_size<P, D>(rows),
       *met = v + tile_size<P, D>(rows);
  auto tile = [&](int buffer, int part) {
    return met + tile_size<P, D>(queries) * (2 * buffer + part);
  };
  auto met_query_rows = [&](int buffer) {
    return reinterpret_cast<QueryRow*>(tile(2, 0)) + buffer * queries;
  };
  auto begin = [&](int start, int buffer) {
    begin_tile<P, queries, D>(s.rows(qkv, 3, 0, head), start, s.time, tile(buffer, 0));
    begin_tile<P, queries, D>(s.rows(dy, 1, 0, head), start, s.time, tile(buffer, 1));
    const QueryRow* from = query_rows + std::int64_t{head} * pitch + start;
    if (const int i = 2 * threadIdx.x; i < queries)
      cp_async_16(met_query_rows(buffer) + i, from + i);
  };
  begin_tile<P, rows, D>(s.rows(qkv, 3, 1, head), first, s.time, k);
  begin_tile<P, rows, D>(s.rows(qkv, 3, 2, head), first, s.time, v);
  cp_async_commit();
  begin(first, 0);
  cp_async_commit();
  cp_async_wait<1>();
  __syncthreads();  // the block's own rows have arrived
  const OwnRows<P, R, D, keeps_own<P, D, true>> k_rows(k, warp_row);
  const OwnRows<P, R, D, keeps_own<P, D, true>> v_rows(v, warp_row);

  Fragments<R, D> dk = {}, dv = {};
  for_tiles<P>(first, s.time, queries, begin, [&](int start, int buffer) {
    if (start + queries <= together.first || together.first >= s.time)
      return;  // no query sees these keys
    Fragments<R, queries> p = {}, ds = {};
    P::start(p, ds);
    P::template multiply_transposed<queries>(k_rows, tile(buffer, 0), p);
    P::template multiply_transposed<queries>(v_rows, tile(buffer, 1), ds);
    P::finish(p, ds);
    if (start < row + 16 * R) hide_later_keys<true, queries>(start - row, p);
    PG_UNROLL
    for (int n = 0; n < queries / 8; ++n) {
      const auto met = load<Pack<QueryRow, 2>>(met_query_rows(buffer) + fragment_column(n, 0));
      PG_UNROLL
      for (int i = 0; i < 4 * R; ++i)
        to_slope(s.scale * log2_e, met.at[i % 2], p[i / 4][n][i % 4], ds[i / 4][n][i % 4]);
    }
    P::start(dv, dk);
    P::template multiply<queries, D>(p, tile(buffer, 1), dv);
    P::template multiply<queries, D>(ds, tile(buffer, 0), dk);
    P::finish(dv, dk);
  });
  write_rows<D>(s.scale, dk, s.rows(dqkv, 3, 1, head), row, s.time);
  write_rows<D>(1, dv, s.rows(dqkv, 3, 2, head), row, s.time);
}

/// Elements of shared memory: own rows, two buffers of tiles, and queries' rows for keys.
template <class P, int D, bool of_keys>
constexpr int backward_elements = tile_size<P, D>(2 * block_rows<P, own_groups<P, D, of_keys>> +
                                                  4 * met_rows<P>) +
                                  of_keys * 2 * met_rows<P>* int(sizeof(QueryRow) / sizeof(Bf16));

template <class P, int D>
void run_flash_backward(const AttentionWork& work) {
  const auto& [backend, s, qkv, y, normalizer, dy, dqkv] = work;
  constexpr int for_queries = backward_elements<P, D, false>,
                for_keys = backward_elements<P, D, true>;
  static_assert(sizeof(Bf16) * std::max(for_queries, for_keys) + P::by_group * 1024 <= 99 * 1024);
  constexpr int queries = block_rows<P, own_groups<P, D, false>>,
                keys = block_rows<P, own_groups<P, D, true>>;
  const int pitch = static_cast<int>(blocks_for(s.time, queries)) * queries;
  const Tensor rows = workspace({s.all_heads(), pitch, 2}, DType::f32, y.device());
  auto* query_rows = reinterpret_cast<QueryRow*>(rows.data<float>());
  backend.run(flash_backward_queries<P, D>, flash_grid<P>(s, queries, for_queries), s, qkv, y,
              normalizer, dy, query_rows, dqkv);
  backend.run(flash_backward_keys<P, D>, flash_grid<P>(s, keys, for_keys), s, qkv, dy, query_rows,
              pitch, dqkv);
}

}  // namespace plangrad::cuda
