// GELU of rows to which a bias is added, and its gradient, in one pass each.
// Not here: GELU alone (elementwise.cu), the formula (autograd/formulas.h).
// Chapters 02 and 03; Hendrycks and Gimpel 2016.
#include "autograd/formulas.h"
#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

constexpr int bias_threads = 128;
constexpr std::int64_t fewest_rows = 16, most_parts = 512;

/// The rows of a block: few, for many blocks, but enough for few sums to be added afterwards.
std::int64_t rows_of_block(std::int64_t rows) {
  return std::max<std::int64_t>(fewest_rows, blocks_for(rows, most_parts));
}

/// The N columns of a thread, and the rows of its block.
template <int N>
struct Part {
  std::int64_t column, first_row, end_row;

  __device__ Part(std::int64_t rows, std::int64_t part)
      : column((std::int64_t{blockIdx.y} * bias_threads + threadIdx.x) * N),
        first_row(std::int64_t{blockIdx.x} * part),
        end_row(min(first_row + part, rows)) {}
};

template <int N, class T>
__global__ void __launch_bounds__(bias_threads)
    bias_gelu_kernel(std::int64_t rows, std::int64_t width, const T* __restrict__ x,
                     const T* __restrict__ bias, T* __restrict__ y) {
  const Part<N> part(rows, fewest_rows);
  if (part.column >= width) return;
  const auto b = load<Pack<T, N>>(bias + part.column);
  for (std::int64_t r = part.first_row; r < part.end_row; ++r) {
    const auto value = load<Pack<T, N>>(x + r * width + part.column);
    store(y + r * width + part.column, pack<T, N>([&](int j) {
            return autograd::gelu<Math>(to_float(value.at[j]) + to_float(b.at[j]));
          }));
  }
}

/// sums[block]: dx summed over the block's rows.
template <int N, class T>
__global__ void __launch_bounds__(bias_threads)
    bias_gelu_backward_kernel(std::int64_t rows, std::int64_t part_rows, std::int64_t width,
                              const T* __restrict__ x, const T* __restrict__ bias,
                              const T* __restrict__ dy, T* __restrict__ dx,
                              float* __restrict__ sums) {
  const Part<N> part(rows, part_rows);
  if (part.column >= width) return;
  const auto b = load<Pack<T, N>>(bias + part.column);
  float sum[N] = {};
  for (std::int64_t r = part.first_row; r < part.end_row; ++r) {
    const auto value = load<Pack<T, N>>(x + r * width + part.column);
    const auto d = load<Pack<T, N>>(dy + r * width + part.column);
    store(dx + r * width + part.column, pack<T, N>([&](int j) {
            const float slope =
                autograd::gelu_slope<Math>(to_float(value.at[j]) + to_float(b.at[j]));
            const float product = to_float(d.at[j]) * slope;
            sum[j] += product;
            return product;
          }));
  }
  for (int j = 0; j < N; ++j) sums[blockIdx.x * width + part.column + j] = sum[j];
}

Grid grid_for(std::int64_t rows, std::int64_t part, std::int64_t width, int columns) {
  return {{blocks_for(rows, part), blocks_for(width, columns * bias_threads)}, bias_threads};
}

}  // namespace

void CudaBackend::bias_gelu(In x, In bias, Out y) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  dispatch_packs(width, {x, bias, y}, [&]<class T, int N>() {
    run(bias_gelu_kernel<N, T>, grid_for(rows, fewest_rows, width, N), rows, width, x, bias, y);
  });
}

void CudaBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width, part = rows_of_block(rows);
  const Tensor sums = workspace({blocks_for(rows, part), width}, DType::f32, x.device());
  dispatch_packs(width, {x, bias, dy, dx}, [&]<class T, int N>() {
    run(bias_gelu_backward_kernel<N, T>, grid_for(rows, part, width, N), rows, part, width, x, bias,
        dy, dx, sums);
  });
  reduce(Reduction::sum, sums, dbias.window(0, {1, width}));
}

}  // namespace paragrad::cuda
