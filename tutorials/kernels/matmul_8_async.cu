// Matrix product, rung 8: two buffers of tiles. While a block multiplies from one buffer, the next
// tiles are copied to the other one, without passing through registers.
// Not here: tensor cores, which are the next rung.
// CUDA C++ Programming Guide, asynchronous data copies.
#include "tutorials/kernels/thread_tile.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = 128, depth = 16, threads = 256;
constexpr int warp_rows = 64, warp_columns = 32, padding = 4;

__global__ void __launch_bounds__(threads) matmul_async_kernel(Product p) {
  alignas(16) __shared__ float tiles_a[2][tile][depth + padding];
  alignas(16) __shared__ float tiles_b[2][depth][tile];
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / 4 * warp_rows + lane / 4, column = warp % 4 * warp_columns + lane % 4 * 4;
  ThreadTile<8, 16> mine{row, column};
  // [snippet buffers]
  auto begin = [&](int start) {
    const int buffer = start / depth % 2;
    copy_tile<depth>(tiles_a[buffer], p.a, p.m, p.k, top, start);
    copy_tile<tile>(tiles_b[buffer], p.b, p.k, p.n, start, left);
    cp_async_commit();
  };
  begin(0);
  for (int start = 0; start < p.k; start += depth) {
    cp_async_wait<0>();  // this thread's copies have arrived
    __syncthreads();     // all threads' copies have arrived, and the other buffer is free
    begin(start + depth);
    const int buffer = start / depth % 2;
    mine.multiply(tiles_a[buffer], tiles_b[buffer]);
  }
  // [end snippet]
  mine.write(p, top, left);
}

}  // namespace

void matmul_async(const Product& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch(matmul_async_kernel, grid, dim3(threads), 0, stream, p);
}

}  // namespace plangrad::cuda::kernels
