// Softmax, rung 2: the largest number and the sum in one pass. Where a larger number comes, the sum
// so far shrinks by what it would have been divided by. A row is read twice, not three times.
// Not here: neighbouring reads, which are the next rung.
// Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/online.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads) softmax_online_kernel(Softmax s) {
  const int row = blockIdx.x * threads + threadIdx.x;
  if (row >= s.rows) return;
  const float* x = s.x + row * s.width;
  float* y = s.y + row * s.width;
  Online online;
  for (int i = 0; i < s.width; ++i) online.add(x[i]);
  for (int i = 0; i < s.width; ++i) y[i] = online.share(x[i]);
}

}  // namespace

void softmax_online(const Softmax& s, cudaStream_t stream) {
  launch(softmax_online_kernel, dim3(blocks_for(s.rows, threads)), dim3(threads), 0, stream, s);
}

}  // namespace plangrad::cuda::kernels
