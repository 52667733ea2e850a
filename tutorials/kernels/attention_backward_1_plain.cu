// Attention's gradients, rung 1: three kernels, for scores, for the slopes of softmax and for sums.
// The shares of all pairs and their gradients go to memory and come back.
// Not here: y, which the gradients don't need. Chapter 01 derives them.
// Vaswani et al. 2017, "Attention is all you need", eq. 1.
#include <cmath>

#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int D = Attention::size, tile = 16, warps = 4;

/// The scores of all pairs, and dy v^T, the gradients of their shares.
__global__ void __launch_bounds__(tile* tile) pairs_kernel(AttentionBackward a) {
  const int key = blockIdx.x * tile + threadIdx.x, query = blockIdx.y * tile + threadIdx.y;
  if (key >= a.time || query >= a.time) return;
  const int head = blockIdx.z * a.time, pair = (head + query) * a.time + key;
  float score = 0, dshare = 0;
  for (int i = 0; i < D; ++i) {
    score += a.q[(head + query) * D + i] * a.k[(head + key) * D + i];
    dshare += a.dy[(head + query) * D + i] * a.v[(head + key) * D + i];
  }
  a.shares()[pair] = score * a.scale();
  a.slopes()[pair] = dshare;
}

/// Replaces scores by shares, and gradients of shares by those of scores. A warp has a row.
__global__ void __launch_bounds__(warps * 32) slopes_kernel(AttentionBackward a) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= a.heads * a.time) return;
  float *share = a.shares() + row * a.time, *slope = a.slopes() + row * a.time;
  float largest = -INFINITY, sum = 0, dot = 0;
  for (int i = lane; i < a.time; i += 32) largest = max(largest, share[i]);
  largest = warp_max(largest);
  for (int i = lane; i < a.time; i += 32) {
    share[i] = expf(share[i] - largest);
    sum += share[i];
    dot += share[i] * slope[i];
  }
  sum = warp_sum(sum);
  dot = warp_sum(dot) / sum;
  for (int i = lane; i < a.time; i += 32) {
    share[i] /= sum;
    slope[i] = share[i] * (slope[i] - dot);
  }
}

/// A row of dq, dk and dv. A thread has a column.
__global__ void __launch_bounds__(D) sums_kernel(AttentionBackward a) {
  const int row = blockIdx.x, head = row / a.time * a.time, i = threadIdx.x;
  float dq = 0, dk = 0, dv = 0;
  for (int other = head; other < head + a.time; ++other) {
    const int as_query = row * a.time + other - head, as_key = other * a.time + row - head;
    dq += a.slopes()[as_query] * a.k[other * D + i];
    dk += a.slopes()[as_key] * a.q[other * D + i];
    dv += a.shares()[as_key] * a.dy[other * D + i];
  }
  a.dq()[row * D + i] = dq * a.scale();
  a.dk()[row * D + i] = dk * a.scale();
  a.dv()[row * D + i] = dv;
}

}  // namespace

void attention_backward_plain(const AttentionBackward& a, cudaStream_t stream) {
  const int blocks = blocks_for(a.time, tile), rows = a.heads * a.time;
  launch(pairs_kernel, dim3(blocks, blocks, a.heads), dim3(tile, tile), 0, stream, a);
  launch(slopes_kernel, dim3(blocks_for(rows, warps)), dim3(warps * 32), 0, stream, a);
  launch(sums_kernel, dim3(rows), dim3(D), 0, stream, a);
}

}  // namespace plangrad::cuda::kernels
