// Matrix product, rung 11: blocks in an order that the L2 cache likes. Those that run at the same
// time form a square of tiles, and share the rows of a and the columns of b that they read.
// Not here: Hopper's instructions, which are the next rung.
// Tillet, Kung and Cox 2019, "Triton" (grouped order of programs in its matrix products).
#include "tutorials/kernels/block_order.h"
#include "tutorials/kernels/stages.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = Stage::tile, depth = Stage::depth, threads = 256, stages = 4;

__global__ void __launch_bounds__(threads)
    matmul_block_order_kernel(ProductOf<bf16> p, int tile_rows, int tile_columns) {
  Stage* stage = dynamic_shared<Stage>();
  const int2 place = place_of(blockIdx.x, tile_rows, tile_columns);
  const int top = place.y * tile, left = place.x * tile;
  WarpTile mine(threadIdx.x / 32);
  auto begin = [&](int step) {
    if (step * depth < p.k) stage[step % stages].begin(p, top, left, step * depth);
    cp_async_commit();
  };
  for (int step = 0; step < stages - 1; ++step) begin(step);
  for (int step = 0; step * depth < p.k; ++step) {
    cp_async_wait<stages - 2>();
    __syncthreads();
    begin(step + stages - 1);
    mine.multiply(stage[step % stages].a, stage[step % stages].b);
  }
  write(mine, p, top, left);
}

}  // namespace

void matmul_block_order(const ProductOf<bf16>& p, cudaStream_t stream) {
  const int tile_rows = blocks_for(p.m, tile), tile_columns = blocks_for(p.n, tile);
  launch_large(matmul_block_order_kernel, dim3(tile_rows * tile_columns), threads,
               stages * sizeof(Stage), stream, p, tile_rows, tile_columns);
}

}  // namespace plangrad::cuda::kernels
