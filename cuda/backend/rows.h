// What kernels with a block for each row share.
// Not here: the kernels (softmax.cu, cross_entropy.cu, layer_norm.cu).
// Chapters 02 and 03.
#pragma once

#include <algorithm>

#include "cuda/backend/kernel_types.h"
#include "cuda/launch/block_reduce.h"

namespace paragrad::cuda {

constexpr unsigned most_row_threads = 1024;

constexpr int row_elements = 8;  // of a thread, in rows that are no wider than such blocks

/// How many threads a row of this width gets: whole warps.
inline dim3 row_threads(std::int64_t width) {
  return dim3(std::clamp(blocks_for(width, row_elements * 32) * 32, 32u, most_row_threads));
}

/// Whether a thread can keep what is its own of a row.
inline bool row_fits(std::int64_t width) { return width <= row_elements * most_row_threads; }

/// Calls body(c, pack) for the packs of N elements of a row that are this thread's, with their
/// first column c. N divides the width.
template <int N, class T, class Body>
__device__ void for_packs(const T* row, std::int64_t width, Body body) {
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < width; c += blockDim.x * N)
    body(c, load<Pack<T, N>>(row + c));
}

/// The same for a row of any width that begins anywhere: body(c, pack) gets single elements up to
/// the first address that packs can be loaded from, and behind the last whole pack.
template <int N, class T, class Body>
__device__ void for_any_packs(const T* row, std::int64_t width, Body body) {
  const auto past =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % N);
  const std::int64_t first = min((N - past) % N, width), last = width - (width - first) % N;
  if (threadIdx.x < first) body(std::int64_t{threadIdx.x}, load<Pack<T, 1>>(row + threadIdx.x));
  for_packs<N>(row + first, last - first,
               [&](std::int64_t c, const Pack<T, N>& p) { body(first + c, p); });
  const std::int64_t c = last + threadIdx.x;
  if (c < width) body(c, load<Pack<T, 1>>(row + c));
}

/// What is this thread's of a row that is read more than once: kept if `Fits`, else loaded again.
template <int N, bool Fits, class T>
class Row {
 public:
  __device__ Row(const T* row, std::int64_t width) : row_(row) {
    if constexpr (Fits)
      for_each(width, [&](std::int64_t c, int k) { packs_[k] = load<Pack<T, N>>(row + c); });
  }
  /// Pack k of this thread, which begins at column c.
  __device__ Pack<T, N> at(std::int64_t c, int k) const {
    if constexpr (Fits)
      return packs_[k];
    else
      return load<Pack<T, N>>(row_ + c);
  }
  /// Calls body(c, k) for the packs of this thread.
  template <class Body>
  static __device__ void for_each(std::int64_t width, Body body) {
    if constexpr (Fits) {
      PG_UNROLL
      for (int k = 0; k < row_elements / N; ++k) {
        const std::int64_t c = (std::int64_t{blockDim.x} * k + threadIdx.x) * N;
        if (c < width) body(c, k);
      }
    } else {
      for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < width; c += blockDim.x * N)
        body(c, 0);
    }
  }

 private:
  const T* row_;
  Pack<T, N> packs_[Fits ? row_elements / N : 1];
};

/// A row's maximum, and the sum of exp(x - maximum).
struct ExpSum {
  float top, sum;
};

/// In one pass: when a larger maximum comes, the sum so far shrinks. NaN gets into the sum.
/// source: Milakov and Gimelshein 2018, algorithm 3
template <int N, class T>
__device__ ExpSum exp_sum(const T* row, std::int64_t width) {
  float top = -3.402823466e38f, sum = 0;  // the lowest number: differences to it are not NaN
  for_any_packs<N>(row, width, [&]<int M>(std::int64_t, const Pack<T, M>& x) {
    for (int j = 0; j < M; ++j) {
      const float value = to_float(x.at[j]);
      if (value > top) {
        sum = sum * expf(top - value) + 1;
        top = value;
      } else {
        sum += expf(value - top);
      }
    }
  });
  const float all = block_max(top);
  return {all, block_sum(sum * expf(top - all))};
}

}  // namespace paragrad::cuda
