// Matrix product, rung 1: one thread per element of the result.
// Not here: neighbouring reads. The threads of a warp have neighbouring rows, so that each of their
// reads of a, and writes of c, touches 32 places that are far apart.
// CUDA C++ Programming Guide, shared memory (its first kernel).
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 16;

// [snippet kernel]
__global__ void __launch_bounds__(tile* tile) matmul_plain_kernel(Product p) {
  int row = blockIdx.x * tile + threadIdx.x, column = blockIdx.y * tile + threadIdx.y;
  if (row >= p.m || column >= p.n) return;
  float sum = 0;
  for (int i = 0; i < p.k; ++i) sum += p.a[row * p.k + i] * p.b[i * p.n + column];
  p.c[row * p.n + column] = sum;
}
// [end snippet]

}  // namespace

// [snippet launch]
void matmul_plain(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.m, tile), blocks_for(p.n, tile));
  launch(matmul_plain_kernel, grid, dim3(tile, tile), 0, stream, p);
}
// [end snippet]

}  // namespace plangrad::cuda::kernels
