// Sums of columns, rung 1: one thread per column. Neighbouring threads read neighbouring elements.
// Not here: enough threads. A bias of 768 elements keeps 6 blocks busy, of a hundred and more that
// a GPU can run at a time.
// Chapter 01: the gradient of a bias is the sum of the result's gradient over all rows.
#include "cuda/launch/device.h"
#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int threads = 128;

__global__ void __launch_bounds__(threads) column_sum_plain_kernel(ColumnSum s) {
  const int column = blockIdx.x * threads + threadIdx.x;
  if (column >= s.columns) return;
  float sum = 0;
  for (int row = 0; row < s.rows; ++row) sum += s.x[row * s.columns + column];
  s.y[column] = sum;
}

}  // namespace

void column_sum_plain(const ColumnSum& s, cudaStream_t stream) {
  launch(column_sum_plain_kernel, dim3(blocks_for(s.columns, threads)), dim3(threads), 0, stream,
         s);
}

}  // namespace plangrad::cuda::kernels
