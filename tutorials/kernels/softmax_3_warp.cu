// Softmax, rung 3: one warp per row. Its lanes read neighbouring elements; two shuffled reductions
// join what each lane has found.
// Not here: rows that are read once, which are the next rung.
// Milakov and Gimelshein 2018, "Online normalizer calculation for softmax", section 3.
#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/online.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int warps = 4;

/// Warps return early only as a whole.
__global__ void __launch_bounds__(warps * 32) softmax_warp_kernel(Softmax s) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= s.rows) return;
  const float* x = s.x + row * s.width;
  float* y = s.y + row * s.width;
  Online online;
  for (int i = lane; i < s.width; i += 32) online.add(x[i]);
  online = over_warp(online);
  for (int i = lane; i < s.width; i += 32) y[i] = online.share(x[i]);
}

}  // namespace

void softmax_warp(const Softmax& s, cudaStream_t stream) {
  launch(softmax_warp_kernel, dim3(blocks_for(s.rows, warps)), dim3(warps * 32), 0, stream, s);
}

}  // namespace plangrad::cuda::kernels
