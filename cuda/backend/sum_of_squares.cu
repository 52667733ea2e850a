// The sum of all squares, in f64: blocks sum parts of fixed length, then one block sums the parts.
// Not here: sums that keep dimensions (reduce.cu).
// Chapter 03.
#include "cuda/block_reduce.h"
#include "cuda/kernel_types.h"

namespace paragrad::cuda {

namespace {

constexpr int threads = 256, part = 32 * threads;

template <class T>
__global__ void __launch_bounds__(threads)
    sum_of_squares_kernel(std::int64_t count, const T* x, double* sums) {
  const std::int64_t start = std::int64_t{blockIdx.x} * part;
  double sum = 0;
  for (int i = threadIdx.x; i < part && start + i < count; i += threads) {
    const double value = to_float(x[start + i]);
    sum += value * value;
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// By one block.
__global__ void __launch_bounds__(threads) sum_kernel(int count, const double* x, double* total) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += threads) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

double CudaBackend::sum_of_squares(const Tensor& x) {
  const unsigned parts = blocks_for(x.numel(), part);
  const Tensor sums =
      empty({std::int64_t{parts} + 1}, DType::f64, x.device(), autograd::Category::workspace);
  dispatch(x, [&]<class T>() {
    run(sum_of_squares_kernel<T>, dim3(parts), dim3(threads), x.numel(), x.data<T>(),
        sums.data<double>());
  });
  double* total = sums.data<double>() + parts;
  run(sum_kernel, dim3(1), dim3(threads), static_cast<int>(parts), sums.data<double>(), total);
  double result = 0;
  read(total, &result, sizeof(result));
  return result;
}

}  // namespace paragrad::cuda
