// Attention, rung 1: three kernels, for scores, their softmax and the sums of values. The scores of
// all pairs of tokens go to memory and come back twice.
// Not here: the mask of a language model, which leaves later tokens out: chapter 02.
// Vaswani et al. 2017, "Attention is all you need", eq. 1.
#include <cmath>

#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int D = Attention::size, tile = 16, warps = 4;

__global__ void __launch_bounds__(tile* tile) scores_kernel(Attention a) {
  const int key = blockIdx.x * tile + threadIdx.x, query = blockIdx.y * tile + threadIdx.y;
  if (key >= a.time || query >= a.time) return;
  const int head = blockIdx.z * a.time;  // its first row
  float sum = 0;
  for (int i = 0; i < D; ++i) sum += a.q[(head + query) * D + i] * a.k[(head + key) * D + i];
  a.scores[(head + query) * a.time + key] = sum * a.scale();
}

/// Replaces each row of scores by its softmax, by a warp, as rung 3 of softmax does.
__global__ void __launch_bounds__(warps * 32) shares_kernel(Attention a) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= a.heads * a.time) return;
  float* x = a.scores + row * a.time;
  float largest = -INFINITY, sum = 0;
  for (int i = lane; i < a.time; i += 32) largest = max(largest, x[i]);
  largest = warp_max(largest);
  for (int i = lane; i < a.time; i += 32) sum += expf(x[i] - largest);
  sum = warp_sum(sum);
  for (int i = lane; i < a.time; i += 32) x[i] = expf(x[i] - largest) / sum;
}

__global__ void __launch_bounds__(D) values_kernel(Attention a) {
  const int row = blockIdx.x, head = row / a.time * a.time;
  float sum = 0;
  for (int key = 0; key < a.time; ++key)
    sum += a.scores[row * a.time + key] * a.v[(head + key) * D + threadIdx.x];
  a.y[row * D + threadIdx.x] = sum;
}

}  // namespace

void attention_plain(const Attention& a, cudaStream_t stream) {
  const int blocks = blocks_for(a.time, tile), rows = a.heads * a.time;
  launch(scores_kernel, dim3(blocks, blocks, a.heads), dim3(tile, tile), 0, stream, a);
  launch(shares_kernel, dim3(blocks_for(rows, warps)), dim3(warps * 32), 0, stream, a);
  launch(values_kernel, dim3(rows), dim3(D), 0, stream, a);
}

}  // namespace plangrad::cuda::kernels
