// Sums of columns, rung 4: a thread has 4 neighbouring columns, and reads 16 bytes at a time.
// Not here: sums that the kernel before could have made of numbers that it had in registers.
// Chapter 12.
#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int width = 32, warps = 8;

/// y[part] = the sum of each column over the rows of the part.        x (rows,n), y (parts,n)
template <int N>
__global__ void __launch_bounds__(width* warps)
    column_sum_vectors_kernel(const float* x, float* y, int rows, int n, int part_rows) {
  alignas(16) __shared__ Floats<N> sums[warps][width];
  const int lane = threadIdx.x % width, warp = threadIdx.x / width, part = blockIdx.y;
  const int column = (blockIdx.x * width + lane) * N, end = min(rows, (part + 1) * part_rows);
  Floats<N> sum{};
  auto add = [&](const Floats<N>& more) {
    PG_UNROLL
    for (int i = 0; i < N; ++i) sum.at[i] += more.at[i];
  };
  if (column < n)
    for (int row = part * part_rows + warp; row < end; row += warps)
      add(load<Floats<N>>(x + row * n + column));
  sums[warp][lane] = sum;
  __syncthreads();
  if (warp > 0 || column >= n) return;
  for (int i = 1; i < warps; ++i) add(sums[i][lane]);
  store(y + part * n + column, sum);
}

template <int N>
void run(const ColumnSum& s, cudaStream_t stream) {
  const int parts = blocks_for(s.rows, ColumnSum::part_rows);
  const int blocks = blocks_for(s.columns, width * N);
  launch(column_sum_vectors_kernel<N>, dim3(blocks, parts), dim3(width * warps), 0, stream, s.x,
         s.parts, s.rows, s.columns, ColumnSum::part_rows);
  launch(column_sum_vectors_kernel<N>, dim3(blocks), dim3(width * warps), 0, stream, s.parts, s.y,
         parts, s.columns, parts);
}

}  // namespace

void column_sum_vectors(const ColumnSum& s, cudaStream_t stream) {
  const bool vectors =
      s.columns % 4 == 0 && aligned<4>(s.x) && aligned<4>(s.y) && aligned<4>(s.parts);
  vectors ? run<4>(s, stream) : run<1>(s, stream);
}

}  // namespace plangrad::cuda::kernels
