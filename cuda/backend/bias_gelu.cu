// GELU of rows to which a bias is added, and its gradient, in one pass each.
// Not here: GELU alone (elementwise.cu), the formula (autograd/formulas.h).
// Chapters 02 and 03; Hendrycks and Gimpel 2016.
#include <functional>

#include "autograd/formulas.h"
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

namespace {

constexpr int threads = 128, rows_at_once = 4;

/// A thread has N columns of some rows, whose elements are all on their way before it computes.
template <int N, class T>
__global__ void __launch_bounds__(threads)
    bias_gelu_kernel(std::int64_t rows, std::int64_t width, const T* __restrict__ x,
                     const T* __restrict__ bias, T* __restrict__ y) {
  const std::int64_t column = (std::int64_t{blockIdx.y} * threads + threadIdx.x) * N;
  if (column >= width) return;
  const std::int64_t start = std::int64_t{blockIdx.x} * rows_at_once * width + column;
  const std::int64_t here = rows - std::int64_t{blockIdx.x} * rows_at_once;
  const auto b = load<Pack<T, N>>(bias + column);
  Pack<T, N> value[rows_at_once] = {};
  PG_UNROLL
  for (int r = 0; r < rows_at_once; ++r)
    if (r < here) value[r] = load<Pack<T, N>>(x + start + r * width);
  PG_UNROLL
  for (int r = 0; r < rows_at_once; ++r)
    if (r < here)
      store(y + start + r * width, pack<T, N>([&](int j) {
              return autograd::gelu<Math>(to_float(value[r].at[j]) + to_float(b.at[j]));
            }));
}

constexpr unsigned part_warps = 8;
constexpr std::int64_t fewest_rows = 8 * part_warps, most_parts = 128;

/// A block has 32 N columns of a part of the rows, which its warps take in turn. A thread's next
/// row is on its way while it computes. sums[part]: dx summed over the part's rows.
template <int N, class T>
__global__ void __launch_bounds__(32 * part_warps)
    bias_gelu_backward_kernel(std::int64_t rows, std::int64_t part, std::int64_t width,
                              const T* __restrict__ x, const T* __restrict__ bias,
                              const T* __restrict__ dy, T* __restrict__ dx,
                              float* __restrict__ sums) {
  const std::int64_t first = std::int64_t{blockIdx.y} * 32 * N, column = first + threadIdx.x * N;
  const std::int64_t end = min((std::int64_t{blockIdx.x} + 1) * part, rows);
  std::int64_t r = column < width ? blockIdx.x * part + threadIdx.y : end;
  Pack<T, N> b{}, next_value{}, next_d{};
  auto load_row = [&](std::int64_t row) {
    next_value = load<Pack<T, N>>(x + row * width + column);
    next_d = load<Pack<T, N>>(dy + row * width + column);
  };
  if (r < end) b = load<Pack<T, N>>(bias + column), load_row(r);
  float sum[N] = {};
  for (; r < end; r += part_warps) {
    const auto value = next_value, d = next_d;
    if (r + part_warps < end) load_row(r + part_warps);
    store(dx + r * width + column, pack<T, N>([&](int j) {
            const float slope =
                autograd::gelu_slope<Math>(to_float(value.at[j]) + to_float(b.at[j]));
            const float product = to_float(d.at[j]) * slope;
            sum[j] += product;
            return product;
          }));
  }
  for_columns_of_warps<part_warps>(sum, std::plus<float>(), [&](int c, float total) {
    if (first + c < width) sums[blockIdx.x * width + first + c] = total;
  });
}

}  // namespace

void CudaBackend::bias_gelu(In x, In bias, Out y) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  dispatch_packs(width, {x, bias, y}, [&]<class T, int N>() {
    const dim3 blocks(blocks_for(rows, rows_at_once), blocks_for(width, N * threads));
    run(bias_gelu_kernel<N, T>, {blocks, threads}, rows, width, x, bias, y);
  });
}

void CudaBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  const std::int64_t part = std::max<std::int64_t>(fewest_rows, blocks_for(rows, most_parts));
  const unsigned parts = blocks_for(rows, part);
  const Tensor sums = workspace({parts, width}, DType::f32, x.device());
  dispatch_packs(width, {x, bias, dy, dx}, [&]<class T, int N>() {
    run(bias_gelu_backward_kernel<N, T>, {{parts, blocks_for(width, 32 * N)}, {32, part_warps}},
        rows, part, width, x, bias, dy, dx, sums);
  });
  reduce(Reduction::sum, sums, dbias.window(0, {1, width}));
}

}  // namespace plangrad::cuda
