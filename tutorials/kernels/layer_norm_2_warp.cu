// Layer norm, rung 2: one warp per row. Its lanes read neighbouring elements, and sum by shuffles,
// without shared memory or barriers.
// Not here: vectors of 4 elements per read, which are the next rung.
// Ba, Kiros and Hinton 2016, eq. 3.
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int warps = 4;

/// Warps return early only as a whole.
__global__ void __launch_bounds__(warps * 32) layer_norm_warp_kernel(LayerNorm norm) {
  int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= norm.rows) return;
  const float* x = norm.x + row * norm.width;
  float* y = norm.y + row * norm.width;
  // [snippet sums]
  float sum = 0, squares = 0;
  for (int i = lane; i < norm.width; i += 32) sum += x[i];
  float mean = warp_sum(sum) / norm.width;
  for (int i = lane; i < norm.width; i += 32) squares += (x[i] - mean) * (x[i] - mean);
  float inverse = rsqrtf(warp_sum(squares) / norm.width + norm.epsilon);
  // [end snippet]
  for (int i = lane; i < norm.width; i += 32)
    y[i] = (x[i] - mean) * inverse * norm.weight[i] + norm.bias[i];
}

}  // namespace

void layer_norm_warp(const LayerNorm& norm, cudaStream_t stream) {
  launch(layer_norm_warp_kernel, dim3(blocks_for(norm.rows, warps)), dim3(warps * 32), 0, stream,
         norm);
}

}  // namespace plangrad::cuda::kernels
