// Attention's gradients, rung 2: no matrix of pairs. Shares are computed again where they are
// needed, from two numbers of each query that the first kernel keeps. Each sum has one owner: two
// lanes of that kernel have a query, two lanes of the second have a key.
// Not here: tensor cores and masks: cuda/backend/flash_backward.h.
// Dao et al. 2022, "FlashAttention", algorithm 4.
#include <cmath>

#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/online.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int D = Attention::size, lanes = 2, rows = 32, met = 32;  // met: rows of a tile
using Tile = float[met][D];

/// A lane's share of a row: every second element, so that both lanes have different banks.
struct Half {
  float at[D / lanes] = {};

  __device__ static int column(int i) { return i * lanes + threadIdx.x % lanes; }
  __device__ void load_scaled(float scale, const float* matrix, int row, int count) {
    for (int i = 0; i < D / lanes; ++i)
      at[i] = row < count ? matrix[row * D + column(i)] * scale : 0;
  }
  __device__ void store_scaled(float scale, float* row) const {
    for (int i = 0; i < D / lanes; ++i) row[column(i)] = at[i] * scale;
  }
  /// The product of two rows, for both lanes.
  __device__ float dot(const float (&row)[D]) const {
    float sum = 0;
    PG_UNROLL
    for (int i = 0; i < D / lanes; ++i) sum += at[i] * row[column(i)];
    return warp_sum<lanes>(sum);
  }
  __device__ void add(float factor, const float (&row)[D]) {
    PG_UNROLL
    for (int i = 0; i < D / lanes; ++i) at[i] += factor * row[column(i)];
  }
};

/// Calls body(r, row) for all rows of two matrices; it is row r of their tiles.
template <class Body>
__device__ void for_rows(const float* first, const float* second, int count, Tile& a, Tile& b,
                         Body body) {
  for (int start = 0; start < count; start += met) {
    load_tile<D>(a, first, count, D, start, 0);
    load_tile<D>(b, second, count, D, start, 0);
    __syncthreads();
    for (int r = 0; r < min(met, count - start); ++r) body(r, start + r);
    __syncthreads();  // all threads have read the tiles
  }
}

// [snippet queries]
/// dq = scale sum of slopes k, with slope = share (dy v - dot) and dot = sum of shares dy v = y dy.
__global__ void __launch_bounds__(rows* lanes) queries_kernel(AttentionBackward a) {
  alignas(16) __shared__ Tile k, v;
  const int head = blockIdx.y * a.time, query = blockIdx.x * rows + threadIdx.x / lanes;
  const float *keys = a.k + head * D, *values = a.v + head * D;
  Half q, d, dq;
  q.load_scaled(a.scale(), a.q + head * D, query, a.time);
  d.load_scaled(1, a.dy + head * D, query, a.time);
  Online online;
  float dot = 0;  // times the sum
  for_rows(keys, values, a.time, k, v, [&](int key, int) {
    const float score = q.dot(k[key]), dshare = d.dot(v[key]), before = online.largest;
    online.add(score);
    dot = dot * expf(before - online.largest) + expf(score - online.largest) * dshare;
  });
  dot /= online.sum;
  for_rows(keys, values, a.time, k, v, [&](int key, int) {
    dq.add(online.share(q.dot(k[key])) * (d.dot(v[key]) - dot), k[key]);
  });
  if (query >= a.time) return;
  if (threadIdx.x % lanes == 0) {
    a.normalizers()[head + query] = online.largest + logf(online.sum);
    a.dots()[head + query] = dot;
  }
  dq.store_scaled(a.scale(), a.dq() + (head + query) * D);
}
// [end snippet]

/// dk = scale sum of slopes q, dv = sum of shares dy.
__global__ void __launch_bounds__(rows* lanes) keys_kernel(AttentionBackward a) {
  alignas(16) __shared__ Tile q, d;
  const int head = blockIdx.y * a.time, key = blockIdx.x * rows + threadIdx.x / lanes;
  Half k, v, dk, dv;
  k.load_scaled(a.scale(), a.k + head * D, key, a.time);
  v.load_scaled(1, a.v + head * D, key, a.time);
  for_rows(a.q + head * D, a.dy + head * D, a.time, q, d, [&](int r, int query) {
    const float share = expf(k.dot(q[r]) - a.normalizers()[head + query]);
    dk.add(share * (v.dot(d[r]) - a.dots()[head + query]), q[r]);
    dv.add(share, d[r]);
  });
  if (key >= a.time) return;
  dk.store_scaled(a.scale(), a.dk() + (head + key) * D);
  dv.store_scaled(1, a.dv() + (head + key) * D);
}

}  // namespace

void attention_backward_recomputed(const AttentionBackward& a, cudaStream_t stream) {
  const dim3 blocks(blocks_for(a.time, rows), a.heads);
  launch(queries_kernel, blocks, dim3(rows * lanes), 0, stream, a);
  launch(keys_kernel, blocks, dim3(rows * lanes), 0, stream, a);
}

}  // namespace plangrad::cuda::kernels
