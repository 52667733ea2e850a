// The sum of all squares, in f64: blocks sum parts of fixed length, then one block sums the parts.
// Not here: sums that keep dimensions (reduce.cu).
// Chapter 03.
#include "cuda/backend/kernel_types.h"
#include "cuda/launch/block_reduce.h"

namespace paragrad::cuda {

namespace {

constexpr int threads = 256, neighbours = 4, part = 8 * neighbours * threads;

/// A thread has 4 neighbours at a time, whether they are loaded at once or not: the order of
/// additions does not depend on where x begins.
template <int N, class T>
__global__ void __launch_bounds__(threads)
    sum_of_squares_kernel(std::int64_t count, const T* x, double* sums) {
  const std::int64_t start = std::int64_t{blockIdx.x} * part;
  double sum = 0;
  for (int i = threadIdx.x * neighbours; i < part && start + i < count; i += threads * neighbours) {
    const int here = min(std::int64_t{neighbours}, count - start - i);
    Pack<T, neighbours> four{};
    if (N == neighbours && here == neighbours)
      four = load<Pack<T, neighbours>>(x + start + i);
    else
      for (int j = 0; j < here; ++j) four.at[j] = x[start + i + j];
    for (int j = 0; j < here; ++j) {
      const double value = to_float(four.at[j]);
      sum += value * value;
    }
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

/// Parts of all tensors lie one after the other, and then their sums.
std::vector<double> CudaBackend::sums_of_squares(const std::vector<Tensor>& tensors) {
  std::vector<double> result(tensors.size());
  if (tensors.empty()) return result;
  std::int64_t parts = 0;
  for (const Tensor& x : tensors) parts += blocks_for(x.numel(), part);
  const std::int64_t count = static_cast<std::int64_t>(tensors.size());
  const Tensor sums = workspace({parts + count}, DType::f64, tensors[0].device());
  double *next = sums.data<double>(), *totals = next + parts, *total = totals;
  for (const Tensor& x : tensors) {
    const unsigned blocks = blocks_for(x.numel(), part);
    dispatch(x, [&]<class T>() {
      const bool packed = aligned<neighbours>(x.data<T>());
      run(packed ? sum_of_squares_kernel<neighbours, T> : sum_of_squares_kernel<1, T>, dim3(blocks),
          dim3(threads), x.numel(), x, next);
    });
    run(sum_kernel, dim3(1), dim3(threads), static_cast<int>(blocks), next, total);
    next += blocks;
    ++total;
  }
  read(totals, result.data(), count * sizeof(double));
  return result;
}

}  // namespace paragrad::cuda
