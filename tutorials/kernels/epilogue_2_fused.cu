// Product with bias and GELU, rung 2: a thread applies both to its sums before it writes them. The
// result is written once, and not read.
// Not here: bias gradients, which the backward pass could sum from the same registers.
// Chapter 12. The kernel is rung 10's, but for its last lines.
#include "tutorials/kernels/gelu.h"
#include "tutorials/kernels/stages.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = Stage::tile, depth = Stage::depth, threads = 256, stages = 4;

__global__ void __launch_bounds__(threads) epilogue_fused_kernel(Epilogue e) {
  const ProductOf<bf16>& p = e.product;
  Stage* stage = dynamic_shared<Stage>();
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
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
  // [snippet epilogue]
  mine.for_each([&](int row, int column, float sum) {
    const int y = top + row, x = left + column;
    if (y < p.m && x < p.n) p.c[y * p.n + x] = gelu(sum + __bfloat162float(e.bias[x]));
  });
  // [end snippet]
}

}  // namespace

void epilogue_fused(const Epilogue& e, cudaStream_t stream) {
  const auto& p = e.product;
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch_large(epilogue_fused_kernel, grid, threads, stages * sizeof(Stage), stream, e);
}

}  // namespace plangrad::cuda::kernels
