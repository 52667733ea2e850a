// How large the k-th largest element of a tensor is: counting for autograd/magnitude.h.
// Not here: choosing the elements (sparse_values.cu).
// Chapter 10; Alabi et al. 2012, "Fast k-selection algorithms for graphics processing units".
#include "autograd/magnitude.h"

#include <vector>

#include "cuda/backend/encoded.h"

namespace paragrad::cuda {

namespace {

using autograd::digit_values;
using autograd::KeyDigit;

constexpr int threads = 256, piece = 16 * threads;  // elements of a block

template <class T>
__global__ void __launch_bounds__(threads)
    count_keys_kernel(std::int64_t count, const T* x, KeyDigit digit, unsigned* histogram) {
  __shared__ unsigned mine[digit_values];
  for (int i = threadIdx.x; i < digit_values; i += threads) mine[i] = 0;
  __syncthreads();
  const std::int64_t first = std::int64_t{blockIdx.x} * piece + threadIdx.x;
  for (std::int64_t i = first; i < min(first + piece, count); i += threads) {
    const Key key = key_of(to_float(x[i]));
    if (digit.matches(key)) atomicAdd(&mine[digit.of(key)], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < digit_values; i += threads)
    if (mine[i] > 0) atomicAdd(&histogram[i], mine[i]);
}

}  // namespace

// Each digit is looked for by the host, which needs the result.
Magnitude CudaBackend::magnitude(In x, std::int64_t k) {
  const Tensor histogram = workspace({digit_values}, DType::i32, x.device());
  std::vector<unsigned> counted(digit_values);
  return autograd::find_magnitude(k, [&](KeyDigit digit) {
    fill(0, histogram);
    dispatch(x, [&]<class T>() {
      run(count_keys_kernel<T>, dim3(blocks_for(x.numel(), piece)), dim3(threads), x.numel(), x,
          digit, reinterpret_cast<unsigned*>(histogram.data<std::int32_t>()));
    });
    read(histogram.raw(), counted.data(), histogram.bytes());
    return counted;
  });
}

}  // namespace paragrad::cuda
