// Softmax, rung 1: one thread per row, and three passes over it: the largest number, the sum of
// exponentials, the shares.
// Not here: a sum that needs no largest number before it, which is the next rung.
// Chapter 02. Without the largest number, e^x would overflow at x = 89.
#include <cmath>

#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads) softmax_plain_kernel(Softmax s) {
  const int row = blockIdx.x * threads + threadIdx.x;
  if (row >= s.rows) return;
  const float* x = s.x + row * s.width;
  float* y = s.y + row * s.width;
  float largest = -INFINITY, sum = 0;
  for (int i = 0; i < s.width; ++i) largest = max(largest, x[i]);
  for (int i = 0; i < s.width; ++i) sum += expf(x[i] - largest);
  for (int i = 0; i < s.width; ++i) y[i] = expf(x[i] - largest) / sum;
}

}  // namespace

void softmax_plain(const Softmax& s, cudaStream_t stream) {
  launch(softmax_plain_kernel, dim3(blocks_for(s.rows, threads)), dim3(threads), 0, stream, s);
}

}  // namespace plangrad::cuda::kernels
