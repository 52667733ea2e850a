// Matrix product, rung 2: neighbouring threads have neighbouring columns. The threads of a warp
// then read neighbouring elements of b, and all of them the same one of a.
// Not here: reuse. Each element of a is read n times from memory, each of b m times.
// CUDA C++ Programming Guide, coalesced access to global memory.
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 16;

__global__ void __launch_bounds__(tile* tile) matmul_coalesced_kernel(Product p) {
  // [snippet place]
  int row = blockIdx.y * tile + threadIdx.y, column = blockIdx.x * tile + threadIdx.x;
  // [end snippet]
  if (row >= p.m || column >= p.n) return;
  float sum = 0;
  for (int i = 0; i < p.k; ++i) sum += p.a[row * p.k + i] * p.b[i * p.n + column];
  p.c[row * p.n + column] = sum;
}

}  // namespace

void matmul_coalesced(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_coalesced_kernel, grid, dim3(tile, tile), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
