// How large the k-th largest element of a tensor is, by radix select.
// Not here: choosing the elements (sparse_values.cu).
// Chapter 10; Alabi et al. 2012, "Fast k-selection algorithms for graphics processing units".
#include <bit>
#include <limits>
#include <vector>

#include "cuda/backend/encoded.h"

namespace paragrad::cuda {

namespace {

constexpr int threads = 256, piece = 16 * threads;  // elements of a block
constexpr int bins = 2048;

/// Counts keys by the `width` bits above the lowest `shift`; of those that have the bits of `found`
/// above these.
template <class T>
__global__ void __launch_bounds__(threads)
    count_keys_kernel(std::int64_t count, const T* x, Key found, int shift, int width,
                      unsigned* histogram) {
  __shared__ unsigned mine[bins];
  for (int i = threadIdx.x; i < bins; i += threads) mine[i] = 0;
  __syncthreads();
  const Key above = ~Key{0} << (shift + width), digit = (Key{1} << width) - 1;
  const std::int64_t first = std::int64_t{blockIdx.x} * piece + threadIdx.x;
  for (std::int64_t i = first; i < min(first + piece, count); i += threads) {
    const Key key = key_of(to_float(x[i]));
    if (((key ^ found) & above) == 0) atomicAdd(&mine[key >> shift & digit], 1u);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < bins; i += threads)
    if (mine[i] > 0) atomicAdd(&histogram[i], mine[i]);
}

}  // namespace

// Finds the key digit by digit; each is looked for by the host, which needs the result.
Magnitude CudaBackend::magnitude(In x, std::int64_t k) {
  const Tensor histogram = workspace({bins}, DType::i32, x.device());
  std::vector<unsigned> counted(bins);
  struct Digit {
    int shift, width;
  };
  Key found = 0;
  for (auto [shift, width] : {Digit{20, 11}, Digit{10, 10}, Digit{0, 10}}) {
    fill(0, histogram);
    dispatch(x, [&, shift = shift, width = width]<class T>() {
      run(count_keys_kernel<T>, dim3(blocks_for(x.numel(), piece)), dim3(threads), x.numel(), x,
          found, shift, width, reinterpret_cast<unsigned*>(histogram.data<std::int32_t>()));
    });
    read(histogram.raw(), counted.data(), histogram.bytes());
    if (shift == 20)
      for (Key digit = infinity_key >> shift; digit < counted.size(); ++digit)
        if (counted[digit]) return {std::numeric_limits<double>::infinity(), 0};
    Key digit = (Key{1} << width) - 1;
    for (; k > counted[digit]; --digit) k -= counted[digit];
    found |= digit << shift;
  }
  return {std::bit_cast<float>(found), k};
}

}  // namespace paragrad::cuda
