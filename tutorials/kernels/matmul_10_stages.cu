// Matrix product, rung 10: four stages instead of two buffers. Three steps' tiles are on their way
// while a fourth is multiplied, so that a copy may take as long as three multiplications.
// Not here: which blocks run at the same time, which is the next rung.
// CUDA C++ Programming Guide, asynchronous data copies (multi-stage pipelines).
#include "tutorials/kernels/stages.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int tile = Stage::tile, depth = Stage::depth, threads = 256, stages = 4;

__global__ void __launch_bounds__(threads) matmul_stages_kernel(ProductOf<bf16> p) {
  Stage* stage = dynamic_shared<Stage>();
  const int top = blockIdx.y * tile, left = blockIdx.x * tile;
  WarpTile mine(threadIdx.x / 32);
  // [snippet stages]
  auto begin = [&](int step) {
    if (step * depth < p.k) stage[step % stages].begin(p, top, left, step * depth);
    cp_async_commit();  // a group for each step, even if it is empty: groups are counted
  };
  for (int step = 0; step < stages - 1; ++step) begin(step);
  for (int step = 0; step * depth < p.k; ++step) {
    cp_async_wait<stages - 2>();  // this step's copies have arrived; those of two more may not
    __syncthreads();              // and all threads have read the stage of the step before
    begin(step + stages - 1);
    mine.multiply(stage[step % stages].a, stage[step % stages].b);
  }
  // [end snippet]
  write(mine, p, top, left);
}

}  // namespace

void matmul_stages(const ProductOf<bf16>& p, cudaStream_t stream) {
  dim3 grid(blocks_for(p.n, tile), blocks_for(p.m, tile));
  launch_large(matmul_stages_kernel, grid, threads, stages * sizeof(Stage), stream, p);
}

}  // namespace plangrad::cuda::kernels
