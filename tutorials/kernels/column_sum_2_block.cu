// Sums of columns, rung 2: a block has 32 columns, and each of its 8 warps every eighth row. Shared
// memory joins the 8 sums, in the order of the warps, so that the bits do not depend on timing.
// Not here: several blocks for a column, which are the next rung.
// Chapter 12.
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int width = 32, warps = 8;

__global__ void __launch_bounds__(width* warps) column_sum_block_kernel(ColumnSum s) {
  __shared__ float sums[warps][width];
  const int lane = threadIdx.x % width, warp = threadIdx.x / width;
  const int column = blockIdx.x * width + lane;
  float sum = 0;
  if (column < s.columns)
    for (int row = warp; row < s.rows; row += warps) sum += s.x[row * s.columns + column];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= s.columns) return;
  for (int i = 1; i < warps; ++i) sum += sums[i][lane];
  s.y[column] = sum;
}

}  // namespace

void column_sum_block(const ColumnSum& s, cudaStream_t stream) {
  launch(column_sum_block_kernel, dim3(blocks_for(s.columns, width)), dim3(width * warps), 0,
         stream, s);
}

}  // namespace plangrad::cuda::kernels
