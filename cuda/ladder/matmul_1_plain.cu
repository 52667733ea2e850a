// Matrix product, rung 1: one thread per element of the result.
// Not here: reuse. Each element of a is read n times from memory, each of b m times.
// CUDA C++ Programming Guide, shared memory (its first kernel).
#include "cuda/ladder/ladder.h"
#include "cuda/launch/device.h"

namespace paragrad::cuda::ladder {

namespace {

constexpr int tile = 16;

// [snippet kernel]
__global__ void __launch_bounds__(tile* tile) matmul_plain_kernel(Product p) {
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  if (row >= p.m || column >= p.n) return;
  float sum = 0;
  for (int i = 0; i < p.k; ++i) sum += p.a[row * p.k + i] * p.b[i * p.n + column];
  p.c[row * p.n + column] = sum;
}
// [end snippet]

}  // namespace

// [snippet launch]
void matmul_plain(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_plain_kernel, grid, dim3(tile, tile), 0, stream, p);
}
// [end snippet]

}  // namespace paragrad::cuda::ladder
