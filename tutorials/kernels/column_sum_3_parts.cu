// Sums of columns, rung 3: a block for each 128 rows. A second launch of the same kernel sums what
// the blocks have found. Both orders are fixed; atomic additions would need no second launch, but
// come in another order each time.
// Not here: 16 bytes in one load, which are the next rung.
// Chapter 12.
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int width = 32, warps = 8;

/// y[part] = the sum of each column over the rows of the part.        x (rows,n), y (parts,n)
__global__ void __launch_bounds__(width* warps)
    column_sum_parts_kernel(const float* x, float* y, int rows, int n, int part_rows) {
  __shared__ float sums[warps][width];
  const int lane = threadIdx.x % width, warp = threadIdx.x / width, part = blockIdx.y;
  const int column = blockIdx.x * width + lane, end = min(rows, (part + 1) * part_rows);
  float sum = 0;
  if (column < n)
    for (int row = part * part_rows + warp; row < end; row += warps) sum += x[row * n + column];
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= n) return;
  for (int i = 1; i < warps; ++i) sum += sums[i][lane];
  y[part * n + column] = sum;
}

}  // namespace

// [snippet passes]
void column_sum_parts(const ColumnSum& s, cudaStream_t stream) {
  const int parts = blocks_for(s.rows, ColumnSum::part_rows), blocks = blocks_for(s.columns, width);
  launch(column_sum_parts_kernel, dim3(blocks, parts), dim3(width * warps), 0, stream, s.x, s.parts,
         s.rows, s.columns, ColumnSum::part_rows);
  launch(column_sum_parts_kernel, dim3(blocks), dim3(width * warps), 0, stream, s.parts, s.y, parts,
         s.columns, parts);
}
// [end snippet]

}  // namespace plangrad::cuda::kernels
