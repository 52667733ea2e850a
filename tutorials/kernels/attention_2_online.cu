// Attention, rung 2: one kernel, and no matrix of scores. A thread has a query, and takes keys and
// values tile by tile; its softmax is online, and its sums of values shrink as the sum does.
// Not here: tensor cores, which are the next rung.
// Dao et al. 2022, "FlashAttention", algorithm 1; Milakov and Gimelshein 2018.
#include <cmath>

#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int D = Attention::size, queries = 64, keys = 32;

__global__ void __launch_bounds__(queries) attention_online_kernel(Attention a) {
  alignas(16) __shared__ float k[keys][D], v[keys][D];
  const int head = blockIdx.y * a.time, query = blockIdx.x * queries + threadIdx.x;
  float q[D], sums[D] = {};
  for (int i = 0; i < D; ++i) q[i] = query < a.time ? a.q[(head + query) * D + i] * a.scale() : 0;
  float largest = -INFINITY, sum = 0;
  for (int start = 0; start < a.time; start += keys) {
    load_tile<D>(k, a.k + head * D, a.time, D, start, 0);
    load_tile<D>(v, a.v + head * D, a.time, D, start, 0);
    __syncthreads();
    // [snippet online]
    for (int key = 0; key < min(keys, a.time - start); ++key) {
      float score = 0;
      PG_UNROLL
      for (int i = 0; i < D; ++i) score += q[i] * k[key][i];
      const float before = largest;
      largest = max(before, score);
      const float shrink = expf(before - largest), share = expf(score - largest);
      sum = sum * shrink + share;
      PG_UNROLL
      for (int i = 0; i < D; ++i) sums[i] = sums[i] * shrink + share * v[key][i];
    }
    // [end snippet]
    __syncthreads();  // all threads have read the tiles
  }
  if (query >= a.time) return;
  for (int i = 0; i < D; ++i) a.y[(head + query) * D + i] = sums[i] / sum;
}

}  // namespace

void attention_online(const Attention& a, cudaStream_t stream) {
  launch(attention_online_kernel, dim3(blocks_for(a.time, queries), a.heads), dim3(queries), 0,
         stream, a);
}

}  // namespace plangrad::cuda::kernels
