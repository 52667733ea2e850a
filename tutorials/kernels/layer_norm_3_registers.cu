// Layer norm, rung 3: a warp keeps its row in registers, and so reads it once instead of three
// times; each lane reads 16 bytes at a time.
// Not here: rows of more than 2048 elements, which need a block's registers.
// Ba, Kiros and Hinton 2016, eq. 3.
#include "tutorials/kernels/ladder.h"
#include "tutorials/kernels/vectors.h"

namespace plangrad::cuda::kernels {

namespace {

constexpr int warps = 4, most_kept = 64;

/// Each lane keeps `kept` elements of a row, in vectors of N; those past the row's end are unused.
/// `kept` is a constant, because registers have no addresses.
template <int kept, int N>
__global__ void __launch_bounds__(warps * 32) layer_norm_registers_kernel(LayerNorm norm) {
  const int row = blockIdx.x * warps + threadIdx.x / 32, lane = threadIdx.x % 32;
  if (row >= norm.rows) return;
  Floats<N> x[kept / N];
  auto for_each = [&](auto body) {  // body(element or vector of x, its column)
    PG_UNROLL
    for (int i = 0; i < kept / N; ++i)
      if ((32 * i + lane) * N < norm.width) body(x[i], (32 * i + lane) * N);
  };
  float sum = 0, squares = 0;
  for_each([&](Floats<N>& v, int column) {
    v = load<Floats<N>>(norm.x + row * norm.width + column);
    for (float element : v.at) sum += element;
  });
  const float mean = warp_sum(sum) / norm.width;
  for_each([&](const Floats<N>& v, int) {
    for (float element : v.at) squares += (element - mean) * (element - mean);
  });
  const float inverse = rsqrtf(warp_sum(squares) / norm.width + norm.epsilon);
  for_each([&](Floats<N> v, int column) {
    const auto weight = load<Floats<N>>(norm.weight + column);
    const auto bias = load<Floats<N>>(norm.bias + column);
    for (int j = 0; j < N; ++j) v.at[j] = (v.at[j] - mean) * inverse * weight.at[j] + bias.at[j];
    store(norm.y + row * norm.width + column, v);
  });
}

/// Runs the kernel with the first of kept, 2 kept, 4 kept, ... that fits a row.
template <int kept>
void run(const LayerNorm& norm, bool vectors, cudaStream_t stream) {
  if constexpr (kept < most_kept)
    if (norm.width > 32 * kept) return run<2 * kept>(norm, vectors, stream);
  launch(vectors ? layer_norm_registers_kernel<kept, 4> : layer_norm_registers_kernel<kept, 1>,
         dim3(blocks_for(norm.rows, warps)), dim3(warps * 32), 0, stream, norm);
}

}  // namespace

void layer_norm_registers(const LayerNorm& norm, cudaStream_t stream) {
  PG_CHECK(norm.width <= 32 * most_kept, "layer_norm_registers: expected rows of at most ",
           32 * most_kept, " elements, which a warp can keep, got ", norm.width,
           "; use layer_norm_warp");
  const bool vectors = norm.width % 4 == 0 && aligned<4>(norm.x) && aligned<4>(norm.y) &&
                       aligned<4>(norm.weight) && aligned<4>(norm.bias);
  run<4>(norm, vectors, stream);
}

}  // namespace plangrad::cuda::kernels
