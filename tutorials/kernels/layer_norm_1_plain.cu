// Layer norm, rung 1: one thread per row.
// Not here: neighbouring reads. The threads of a warp read addresses one row apart, so each read of
// 32 values moves up to 32 times as many bytes as it needs. Ba, Kiros and Hinton 2016, eq. 3.
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads) layer_norm_plain_kernel(LayerNorm norm) {
  int row = blockIdx.x * threads + threadIdx.x;
  if (row >= norm.rows) return;
  const float* x = norm.x + row * norm.width;
  float* y = norm.y + row * norm.width;
  float sum = 0, squares = 0;
  for (int i = 0; i < norm.width; ++i) sum += x[i];
  float mean = sum / norm.width;
  for (int i = 0; i < norm.width; ++i) squares += (x[i] - mean) * (x[i] - mean);
  float inverse = rsqrtf(squares / norm.width + norm.epsilon);
  for (int i = 0; i < norm.width; ++i)
    y[i] = (x[i] - mean) * inverse * norm.weight[i] + norm.bias[i];
}

}  // namespace

void layer_norm_plain(const LayerNorm& norm, cudaStream_t stream) {
  launch(layer_norm_plain_kernel, dim3(blocks_for(norm.rows, threads)), dim3(threads), 0, stream,
         norm);
}

}  // namespace plangrad::cuda::kernels
