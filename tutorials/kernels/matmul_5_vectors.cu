// Matrix product, rung 5: 16 bytes in one load, from device memory and from shared memory. A
// fourth of the loads moves the same numbers.
// Not here: how the threads of a warp share what they read, which is the next rung.
// CUDA C++ Programming Guide, device memory accesses (size and alignment).
#include "tutorials/kernels/thread_tile.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 128, depth = 16, side = 16, threads = side * side;

__global__ void __launch_bounds__(threads) matmul_vectors_kernel(Product p) {
  alignas(16) __shared__ float tile_a[tile][depth], tile_b[depth][tile];
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  const int x = threadIdx.x % side, y = threadIdx.x / side;
  ThreadTile<side, 4 * side> mine{y, 4 * x};
  for (int start = 0; start < p.k; start += depth) {
    load_tile<depth>(tile_a, p.a, p.m, p.k, top, start);
    load_tile<tile>(tile_b, p.b, p.k, p.n, start, left);
    __syncthreads();
    mine.multiply(tile_a, tile_b);
    __syncthreads();
  }
  mine.write(p, top, left);
}

}  // namespace

void matmul_vectors(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_vectors_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
