// Attention in f32, 16 queries by 16 keys at a time: thread (x,y) of a block computes one score.
// Not here: tensor cores (attention_flash.cu).
// Chapter 03; Dao et al. 2022, "FlashAttention", algorithms 1 and 4.
#include <cmath>

#include "cuda/backend/attention.h"

namespace paragrad::cuda {

namespace {

constexpr int tile = 16;

/// Rows of f32 in shared memory, an odd number of values apart, so that columns differ in bank.
struct Tile {
  float* data;
  int pitch;

  __device__ float* row(int r) const { return data + r * pitch; }
};

/// Tile number i of the dynamic shared memory.
__device__ Tile shared_tile(const AttentionSizes& s, int i) {
  const int pitch = s.size | 1;
  return {dynamic_shared<float>() + i * tile * pitch, pitch};
}
std::size_t shared_bytes(const AttentionSizes& s, int tiles) {
  return std::size_t(tiles) * tile * (s.size | 1) * sizeof(float);
}

/// Rows [first, first + 16) of a head, with zeros behind the last.
template <class T>
__device__ void load_tile(const AttentionSizes& s, HeadRows<const T> rows, int first, Tile to) {
  for (int i = threadIdx.y * tile + threadIdx.x; i < tile * s.size; i += tile * tile) {
    const int r = i / s.size, c = i % s.size;
    to.row(r)[c] = first + r < s.time ? to_float(rows.row(first + r)[c]) : 0;
  }
}

__device__ float dot(const float* a, const float* b, int size) {
  float sum = 0;
  for (int c = 0; c < size; ++c) sum += a[c] * b[c];
  return sum;
}

/// This thread's columns of sums = shrink sums + factors tile, with a factor for each of its rows.
__device__ void add_rows(float shrink, const float* factors, Tile rows, int size, float* sums) {
  for (int c = threadIdx.x; c < size; c += tile) {
    float sum = shrink == 0 ? 0 : sums[c] * shrink;
    for (int j = 0; j < tile; ++j) sum += factors[j] * rows.row(j)[c];
    sums[c] = sum;
  }
}

/// For 16 queries of a head. When a larger score comes, what has been summed shrinks.
template <class T>
__global__ void __launch_bounds__(tile* tile)
    forward_kernel(AttentionSizes s, const T* qkv, T* y, float* normalizer) {
  __shared__ float shares[tile][tile + 1];
  const int x = threadIdx.x, r = threadIdx.y, head = blockIdx.x % s.all_heads();
  const int first = blockIdx.x / s.all_heads() * tile, query = first + r;
  const Tile q = shared_tile(s, 0), k = shared_tile(s, 1), v = shared_tile(s, 2);
  float *sums = shared_tile(s, 3).row(r), top = -INFINITY, total = 0;
  load_tile(s, s.rows(qkv, 3, 0, head), first, q);
  for (int start = 0; start <= first; start += tile) {
    load_tile(s, s.rows(qkv, 3, 1, head), start, k);
    load_tile(s, s.rows(qkv, 3, 2, head), start, v);
    __syncthreads();  // the tiles are complete
    const bool visible = start + x <= query;
    const float score = visible ? s.scale * dot(q.row(r), k.row(x), s.size) : -INFINITY;
    const float before = top;
    top = max(top, group_max<tile>(score));
    const float share = expf(score - top), shrink = expf(before - top);  // 0 if they were -inf
    total = total * shrink + group_sum<tile>(share);
    shares[r][x] = share;
    __syncwarp();  // a row's shares come from the same warp
    add_rows(shrink, shares[r], v, s.size, sums);
    __syncthreads();  // nobody needs the tiles any more
  }
  if (query >= s.time) return;
  for (int c = x; c < s.size; c += tile)
    s.rows(y, 1, 0, head).row(query)[c] = from_float<T>(sums[c] / total);
  if (x == 0) normalizer[std::int64_t{head} * s.time + query] = top + logf(total);
}

/// The gradients of 16 keys and values of a head, or of 16 queries; "other" are those of the other
/// kind that they meet. With P the shares of attention and dP = dy v^T:
///   dS = P (dP - dot),  dv = P^T dy,  dk = scale dS^T q,  dq = scale dS k
template <class T, bool of_keys>
__global__ void __launch_bounds__(tile* tile)
    backward_kernel(AttentionSizes s, const T* qkv, const float* normalizer, const float* dots,
                    const T* dy, T* dqkv) {
  __shared__ float shares[tile][tile + 1], slopes[tile][tile + 1];
  const int x = threadIdx.x, r = threadIdx.y, head = blockIdx.x % s.all_heads();
  const int first = blockIdx.x / s.all_heads() * tile, end = of_keys ? s.time : first + 1;
  const HeadRows<const T> q = s.rows(qkv, 3, 0, head), k = s.rows(qkv, 3, 1, head);
  const HeadRows<const T> v = s.rows(qkv, 3, 2, head), d = s.rows(dy, 1, 0, head);
  const Tile own = shared_tile(s, 0), own_value = shared_tile(s, 1);
  const Tile other = shared_tile(s, 2), other_value = shared_tile(s, 3);
  float *sums = shared_tile(s, 4).row(r), *value_sums = shared_tile(s, 5).row(r);
  load_tile(s, of_keys ? k : q, first, own);
  load_tile(s, of_keys ? v : d, first, own_value);
  const int begin = of_keys ? first : 0;
  for (int start = begin; start < end; start += tile) {
    load_tile(s, of_keys ? q : k, start, other);
    load_tile(s, of_keys ? d : v, start, other_value);
    __syncthreads();  // the tiles are complete
    const int query = of_keys ? start + x : first + r, key = of_keys ? first + r : start + x;
    float share = 0, slope = 0;
    if (key <= query && query < s.time) {
      const std::int64_t at = std::int64_t{head} * s.time + query;
      share = expf(s.scale * dot(own.row(r), other.row(x), s.size) - normalizer[at]);
      slope = share * (dot(own_value.row(r), other_value.row(x), s.size) - dots[at]);
    }
    shares[r][x] = share;
    slopes[r][x] = slope;
    __syncwarp();
    const float keep = start == begin ? 0 : 1;
    add_rows(keep, slopes[r], other, s.size, sums);
    if (of_keys) add_rows(keep, shares[r], other_value, s.size, value_sums);
    __syncthreads();  // nobody needs the tiles any more
  }
  if (first + r >= s.time) return;
  for (int c = x; c < s.size; c += tile) {
    s.rows(dqkv, 3, of_keys, head).row(first + r)[c] = from_float<T>(s.scale * sums[c]);
    if (of_keys) s.rows(dqkv, 3, 2, head).row(first + r)[c] = from_float<T>(value_sums[c]);
  }
}

}  // namespace

void plain_attention(const CudaBackend& backend, const AttentionSizes& s, Attended a) {
  const dim3 grid(blocks_for(s.time, tile) * s.all_heads());
  dispatch(a.y, [&]<class T>() {
    backend.run_shared(forward_kernel<T>, grid, dim3(tile, tile), shared_bytes(s, 4), s, a.qkv, a.y,
                       a.normalizer);
  });
}

// Each sum has one owner, so scores are computed once for queries and once for keys.
void plain_attention_backward(const CudaBackend& backend, const AttentionSizes& s,
                              AttentionGradient a) {
  const dim3 grid(blocks_for(s.time, tile) * s.all_heads());
  dispatch(a.qkv, [&]<class T>() {
    for (auto kernel : {backward_kernel<T, false>, backward_kernel<T, true>})
      backend.run_shared(kernel, grid, dim3(tile, tile), shared_bytes(s, 6), s, a.qkv, a.normalizer,
                         a.dot, a.dy, a.dqkv);
  });
}

}  // namespace paragrad::cuda
