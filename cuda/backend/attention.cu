// Causal attention: chooses the kernels; has those in f32, which take 16 queries by 16 keys at a
// time: thread (x,y) of a block computes one score.
// Not here: tensor cores (attention_flash.cu, attention_hopper.cu).
// Chapter 03; Dao et al. 2022, "FlashAttention", algorithms 1 and 4, and section B.4 for the sum
// over y dy.
#include "cuda/backend/flash_tiles.h"

namespace plangrad::cuda {
namespace {

constexpr int tile = 16;

/// Rows of f32 in shared memory. Their distance is odd, so that a column's values differ in bank.
struct Tile {
  float* data;
  int pitch;

  /// Tile number i of the dynamic shared memory.
  __device__ Tile(const AttentionSizes& s, int i)
      : data(dynamic_shared<float>() + i * tile * (s.size | 1)), pitch(s.size | 1) {}
  __device__ float* row(int r) const { return data + r * pitch; }
};

/// Loads rows [first, first + 16) of a head, with zeros after the last row.
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

/// sums = shrink sums + factors tile, in this thread's columns; each row of the tile has a factor.
__device__ void add_rows(float shrink, const float* factors, Tile rows, int size, float* sums) {
  for (int c = threadIdx.x; c < size; c += tile) {
    float sum = shrink == 0 ? 0 : sums[c] * shrink;
    for (int j = 0; j < tile; ++j) sum += factors[j] * rows.row(j)[c];
    sums[c] = sum;
  }
}

/// Computes 16 queries of a head. When a larger score arrives, the sums so far are scaled down.
template <class T>
__global__ void __launch_bounds__(tile* tile)
    forward_kernel(AttentionSizes s, const T* qkv, T* y, float* normalizer) {
  __shared__ float shares[tile][tile + 1];
  const int x = threadIdx.x, r = threadIdx.y, head = blockIdx.x % s.all_heads();
  const int first = blockIdx.x / s.all_heads() * tile, query = first + r;
  const Tile q(s, 0), k(s, 1), v(s, 2);
  float *sums = Tile(s, 3).row(r), top = -INFINITY, total = 0;
  load_tile(s, s.rows(qkv, 3, 0, head), first, q);
  for (int start = 0; start <= first; start += tile) {
    load_tile(s, s.rows(qkv, 3, 1, head), start, k);
    load_tile(s, s.rows(qkv, 3, 2, head), start, v);
    __syncthreads();  // the tiles are complete
    const bool visible = start + x <= query;
    const float score = visible ? s.scale * dot(q.row(r), k.row(x), s.size) : -INFINITY;
    const float before = top;
    top = max(top, warp_max<tile>(score));
    const float share = expf(score - top), shrink = expf(before - top);  // 0 if they were -inf
    total = total * shrink + warp_sum<tile>(share);
    shares[r][x] = share;
    __syncwarp();  // one warp computes all shares of a row
    add_rows(shrink, shares[r], v, s.size, sums);
    __syncthreads();  // all threads have read the tiles
  }
  if (query >= s.time) return;
  for (int c = x; c < s.size; c += tile)
    s.rows(y, 1, 0, head).row(query)[c] = from_float<T>(sums[c] / total);
  if (x == 0) normalizer[std::int64_t{head} * s.time + query] = top + logf(total);
}

/// The gradients of 16 keys and values of a head, or of 16 queries; "other" are the queries, or the
/// keys and values, that they meet. With P the shares of attention and dP = dy v^T:
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
  const Tile own(s, 0), own_value(s, 1), other(s, 2), other_value(s, 3);
  float *sums = Tile(s, 4).row(r), *value_sums = Tile(s, 5).row(r);
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
    __syncthreads();  // all threads have read the tiles
  }
  if (first + r >= s.time) return;
  for (int c = x; c < s.size; c += tile) {
    s.rows(dqkv, 3, of_keys, head).row(first + r)[c] = from_float<T>(s.scale * sums[c]);
    if (of_keys) s.rows(dqkv, 3, 2, head).row(first + r)[c] = from_float<T>(value_sums[c]);
  }
}

/// Sums y dy over each row of each head, with one warp per row.
template <class T>
__device__ void dot_row(std::int64_t i, AttentionSizes s, const T* y, const T* dy, float* dots) {
  const int head = static_cast<int>(i / s.time), t = static_cast<int>(i % s.time);
  const T *row = s.rows(y, 1, 0, head).row(t), *gradient = s.rows(dy, 1, 0, head).row(t);
  float sum = 0;
  for (int c = threadIdx.x % 32; c < s.size; c += 32)
    sum += to_float(row[c]) * to_float(gradient[c]);
  sum = warp_sum(sum);
  if (threadIdx.x % 32 == 0) dots[i] = sum;
}

/// The grid with a block for 16 rows of each head, with `tiles` tiles in shared memory.
Grid grid_for(const AttentionSizes& s, int tiles) {
  return {blocks_for(s.time, tile) * s.all_heads(), dim3(tile, tile),
          std::size_t(tiles) * tile * (s.size | 1) * sizeof(float)};
}

}  // namespace

AttentionSizes::AttentionSizes(const Tensor& y, int heads)
    : batch(static_cast<int>(y.size(0))),
      time(static_cast<int>(y.size(1))),
      heads(heads),
      size(static_cast<int>(y.size(2) / heads)),
      scale(static_cast<float>(1 / std::sqrt(static_cast<double>(size)))) {}

bool flash_fits(const AttentionSizes& sizes, std::initializer_list<Tensor> tensors) {
  if (sizes.size % 16 != 0 || sizes.size > 128) return false;
  return std::all_of(tensors.begin(), tensors.end(), [](const Tensor& x) {
    return x.dtype() == DType::bf16 && aligned<8>(x.data<__nv_bfloat16>());
  });
}

void CudaBackend::attention(In qkv, int heads, Out y, Out normalizer) {
  refuse_f64(qkv);
  const AttentionSizes sizes(y, heads);
  if (flash_fits(sizes, {qkv, y})) return flash_attention({*this, sizes, qkv, y, normalizer});
  dispatch(
      y, [&]<class T>() { run(forward_kernel<T>, grid_for(sizes, 4), sizes, qkv, y, normalizer); });
}

// Each sum has one owner; therefore scores are computed twice, for queries and for keys.
void CudaBackend::attention_backward(In qkv, int heads, In y, In normalizer, In dy, Out dqkv) {
  const AttentionSizes sizes(y, heads);
  if (flash_fits(sizes, {qkv, y, dy, dqkv}))
    return flash_attention({*this, sizes, qkv, y, normalizer, dy, dqkv});
  const Tensor dots = workspace(normalizer.shape(), DType::f32, y.device());
  dispatch(qkv, [&]<class T>() { run_each<dot_row<T>, 32>(dots.numel(), sizes, y, dy, dots); });
  dispatch(qkv, [&]<class T>() {
    for (auto kernel : {backward_kernel<T, false>, backward_kernel<T, true>})
      run(kernel, grid_for(sizes, 6), sizes, qkv, normalizer, dots, dy, dqkv);
  });
}

}  // namespace plangrad::cuda
