// GELU of x + bias, and its gradients.
// Not here: GELU alone (unary.cu).
// Chapter 03.
#include "autograd/formulas.h"
#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

namespace {

constexpr int threads = 128;
constexpr int block_rows = 16;  // the fewer, the more blocks; the more, the fewer sums of parts

/// The N columns of a thread, and the rows of its block.
template <int N>
struct Part {
  std::int64_t column, first_row, end_row;

  __device__ explicit Part(std::int64_t rows)
      : column((std::int64_t{blockIdx.y} * threads + threadIdx.x) * N),
        first_row(std::int64_t{blockIdx.x} * block_rows),
        end_row(min(first_row + block_rows, rows)) {}
};

template <int N, class T>
__global__ void __launch_bounds__(threads)
    bias_gelu_kernel(std::int64_t rows, std::int64_t width, const T* x, const T* bias, T* y) {
  const Part<N> part(rows);
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
__global__ void __launch_bounds__(threads)
    bias_gelu_backward_kernel(std::int64_t rows, std::int64_t width, const T* x, const T* bias,
                              const T* dy, T* dx, float* sums) {
  const Part<N> part(rows);
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

dim3 grid_for(std::int64_t rows, std::int64_t width, int together) {
  return dim3(blocks_for(rows, block_rows), blocks_for(width, together * threads));
}

}  // namespace

void CudaBackend::bias_gelu(In x, In bias, Out y) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  dispatch(x, [&]<class T>() {
    const bool packed = packs_fit<T>(width, x, bias, y);
    const int n = packed ? pack_size<T> : 1;
    run(packed ? bias_gelu_kernel<pack_size<T>, T> : bias_gelu_kernel<1, T>,
        grid_for(rows, width, n), dim3(threads), rows, width, x, bias, y);
  });
}

void CudaBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  const Tensor sums = workspace({blocks_for(rows, block_rows), width}, DType::f32, x.device());
  dispatch(x, [&]<class T>() {
    const bool packed = packs_fit<T>(width, x, bias, dy, dx);
    const int n = packed ? pack_size<T> : 1;
    run(packed ? bias_gelu_backward_kernel<pack_size<T>, T> : bias_gelu_backward_kernel<1, T>,
        grid_for(rows, width, n), dim3(threads), rows, width, x, bias, dy, dx, sums);
  });
  reduce(Reduction::sum, sums, dbias.window(0, {1, width}));
}

}  // namespace paragrad::cuda
