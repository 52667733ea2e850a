// How layer norm's kernels divide rows among threads: a warp takes a row that fits into its
// registers, a block a wider one.
// Not here: the kernels (layer_norm.cu, layer_norm_backward.cu).
// Chapter 03.
#pragma once

#include "cuda/backend/kernel_types.h"
#include "cuda/launch/block_sums.h"

namespace plangrad::cuda {

// How a row is divided: E of its elements per thread stay in registers, and 32 threads take a row
// if E is warp_elements, or a block if it is block_elements. If E is 0, a block loads them again.
constexpr int warp_elements = 24, block_elements = 16;
constexpr unsigned row_warps = 4;  // of a block whose warps have a row each

template <int N, int E>
constexpr unsigned most_threads = E == 0               ? 1024
                                  : E == warp_elements ? 32 * row_warps
                                  : N > 1              ? 512
                                                       : 256;
/// The blocks that a processor has registers for, at least: packs of bf16 leave room for three.
template <int N, int E>
constexpr unsigned least_blocks = (E == warp_elements && N == 8) ? 3 : 1;

/// Adds over the threads of a row.
template <int E, class T>
__device__ T row_sum(T value) {
  if constexpr (E == warp_elements)
    return warp_sum(value);
  else
    return block_sum(value);
}

/// This thread's packs of a row; zeros without one.
template <int N, int E, class T>
class Row {
 public:
  __device__ Row() : packs_{} {}
  __device__ Row(const T* row, std::int64_t width) : row_(row) {
    if constexpr (E > 0)
      for_each(width, [&](std::int64_t c, int k) { packs_[k] = load<Pack<T, N>>(row + c); });
  }
  /// This thread's pack k, which begins at column c.
  __device__ Pack<T, N> at(std::int64_t c, int k) const {
    if constexpr (E > 0)
      return packs_[k];
    else
      return row_ ? load<Pack<T, N>>(row_ + c) : Pack<T, N>{};
  }
  /// Adds another row; `to` receives the sum, rounded.
  __device__ void add(const Row& other, std::int64_t width, T* to) {
    for_each(width, [&](std::int64_t c, int k) {
      const auto a = at(c, k), b = other.at(c, k);
      const auto sum = pack<T, N>([&](int j) { return to_float(a.at[j]) + to_float(b.at[j]); });
      if constexpr (E > 0) packs_[k] = sum;
      store(to + c, sum);
    });
    row_ = to;
  }
  /// Calls body(c, k) for each pack of this thread.
  template <class Body>
  static __device__ void for_each(std::int64_t width, Body body) {
    const int threads = E == warp_elements ? 32 : blockDim.x, begin = threadIdx.x * N;
    if constexpr (E > 0) {
      PG_UNROLL
      for (int k = 0; k < E / N; ++k)
        if (const int c = threads * k * N + begin; c < width) body(c, k);
    } else {
      for (std::int64_t c = begin; c < width; c += threads * N) body(c, 0);
    }
  }

 private:
  const T* row_ = nullptr;
  Pack<T, N> packs_[E > 0 ? E / N : 1];
};

/// Calls dispatch_packs with E (see warp_elements), and the threads of a block: those of a row, and
/// the number of rows.
template <class Kernel>
void dispatch_row(std::int64_t width,
                  std::initializer_list<std::reference_wrapper<const Tensor>> tensors,
                  Kernel&& kernel) {
  dispatch_packs(width, tensors, [&]<class T, int N>() {
    if (width <= 32 * warp_elements)
      kernel.template operator()<T, N, warp_elements>(dim3(32, row_warps));
    else if (width <= most_threads<N, block_elements> * block_elements)
      kernel.template operator()<T, N, block_elements>(
          dim3(blocks_for(width, 32 * block_elements) * 32));
    else
      kernel.template operator()<T, N, 0>(dim3(most_threads<N, 0>));
  });
}

}  // namespace plangrad::cuda
