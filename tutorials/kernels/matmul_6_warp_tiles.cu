// Matrix product, rung 6: a warp computes 64 x 32 elements, instead of 16 x 128. For as many
// multiplications it reads 64 + 32 numbers, instead of 16 + 128.
// Not here: the banks of shared memory. The 8 rows of a that a warp reads at once begin 64 bytes
// apart, four of them in the same banks, and are read one after the other: the next rung.
// NVIDIA 2017, "CUTLASS: Fast Linear Algebra in CUDA C++" (warp tiles).
#include "tutorials/kernels/thread_tile.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 128, depth = 16, threads = 256;
constexpr int warp_rows = 64, warp_columns = 32;  // a warp's part of the tile; 2 x 4 cover it

__global__ void __launch_bounds__(threads) matmul_warp_tiles_kernel(Product p) {
  alignas(16) __shared__ float tile_a[tile][depth], tile_b[depth][tile];
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  // [snippet place]
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 4 * warp_rows + lane / 4, column = warp % 4 * warp_columns + lane % 4 * 4;
  ThreadTile<8, 16> mine{row, column};
  // [end snippet]
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

void matmul_warp_tiles(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_warp_tiles_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
