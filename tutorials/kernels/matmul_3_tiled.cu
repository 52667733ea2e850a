// Matrix product, rung 3: the threads of a block load a tile of a and a tile of b into shared
// memory, once for the whole block, and multiply from there.
// Not here: several elements per thread, which are the next rung.
// CUDA C++ Programming Guide, shared memory (its second kernel).
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 16;

// [snippet kernel]
/// No thread returns early: threads outside of c load zeros, and wait at all barriers.
__global__ void __launch_bounds__(tile* tile) matmul_tiled_kernel(Product p) {
  __shared__ float tile_a[tile][tile], tile_b[tile][tile];
  int x = threadIdx.x, y = threadIdx.y;
  int row = blockIdx.y * tile + y, column = blockIdx.x * tile + x;
  float sum = 0;
  for (int start = 0; start < p.k; start += tile) {
    bool in_a = row < p.m && start + x < p.k, in_b = start + y < p.k && column < p.n;
    tile_a[y][x] = in_a ? p.a[row * p.k + start + x] : 0;
    tile_b[y][x] = in_b ? p.b[(start + y) * p.n + column] : 0;
    __syncthreads();  // the tiles are complete
    PG_UNROLL
    for (int i = 0; i < tile; ++i) sum += tile_a[y][i] * tile_b[i][x];
    __syncthreads();  // all threads have read the tiles
  }
  if (row < p.m && column < p.n) p.c[row * p.n + column] = sum;
}
// [end snippet]

}  // namespace

void matmul_tiled(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_tiled_kernel, grid, dim3(tile, tile), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
