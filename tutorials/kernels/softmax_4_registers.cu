// Softmax, rung 4: a warp keeps its row in registers, and so reads it once; each lane reads 16
// bytes at a time. The largest number is then known before the sum begins: online is no help.
// Not here: rows of more than 2048 elements, which need a block's registers.
// Chapter 12.
#include <cmath>

#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int warps = 4, most_kept = 64;

/// Each lane keeps `kept` elements of a row, in vectors of N; those past the row's end are unused.
template <int kept, int N>
__global__ void __launch_bounds__(warps * 32) softmax_registers_kernel(Softmax s) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= s.rows) return;
  Floats<N> x[kept / N];
  auto for_each = [&](auto body) {  // body(vector of x, its column)
    PG_UNROLL
    for (int i = 0; i < kept / N; ++i)
      if ((32 * i + lane) * N < s.width) body(x[i], (32 * i + lane) * N);
  };
  float largest = -INFINITY, sum = 0;
  for_each([&](Floats<N>& v, int column) {
    v = load<Floats<N>>(s.x + row * s.width + column);
    for (float element : v.at) largest = max(largest, element);
  });
  largest = warp_max(largest);
  for_each([&](Floats<N>& v, int) {
    for (float& element : v.at) sum += element = expf(element - largest);
  });
  const float inverse = 1 / warp_sum(sum);
  for_each([&](Floats<N> v, int column) {
    for (float& element : v.at) element *= inverse;
    store(s.y + row * s.width + column, v);
  });
}

/// Runs the kernel with the first of kept, 2 kept, 4 kept, ... that fits a row.
template <int kept>
void run(const Softmax& s, bool vectors, cudaStream_t stream) {
  if constexpr (kept < most_kept)
    if (s.width > 32 * kept) return run<2 * kept>(s, vectors, stream);
  launch(vectors ? softmax_registers_kernel<kept, 4> : softmax_registers_kernel<kept, 1>,
         dim3(blocks_for(s.rows, warps)), dim3(warps * 32), 0, stream, s);
}

}  // namespace

void softmax_registers(const Softmax& s, cudaStream_t stream) {
  PG_CHECK(s.width <= 32 * most_kept, "softmax_registers: expected rows of at most ",
           32 * most_kept, " elements, which a warp can keep, got ", s.width, "; use softmax_warp");
  run<4>(s, s.width % 4 == 0 && aligned<4>(s.x) && aligned<4>(s.y), stream);
}

}  // namespace plangrad::cuda::kernels
