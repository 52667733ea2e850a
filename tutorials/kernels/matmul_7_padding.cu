// Matrix product, rung 7: rows of the tile of a are 16 bytes longer in shared memory than what
// they hold. The 8 rows that a warp reads at once are then in different banks.
// Not here: loads that go on during multiplications, which are the next rung.
// CUDA C++ Programming Guide, shared memory (bank conflicts).
#include "tutorials/kernels/thread_tile.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 128, depth = 16, threads = 256;
constexpr int warp_rows = 64, warp_columns = 32;
// [snippet padding]
// Row r of the tile begins at word 20 r: with r = 0 to 7, its four words are in banks 0, 20, 8, 28,
// 16, 4, 24, 12 and the three after each. Without padding it would be banks 0, 16, 0, 16, ...
constexpr int padding = 4;
// [end snippet]

__global__ void __launch_bounds__(threads) matmul_padding_kernel(Product p) {
  alignas(16) __shared__ float tile_a[tile][depth + padding], tile_b[depth][tile];
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 4 * warp_rows + lane / 4, column = warp % 4 * warp_columns + lane % 4 * 4;
  ThreadTile<8, 16> mine{row, column};
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

void matmul_padding(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_padding_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
