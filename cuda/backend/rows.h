// What kernels with a block for each row share.
// Not here: the kernels (softmax.cu, cross_entropy.cu, layer_norm.cu).
// Chapters 02 and 03.
#pragma once

#include <algorithm>

#include "cuda/block_reduce.h"
#include "cuda/kernel_types.h"

namespace paragrad::cuda {

constexpr unsigned most_row_threads = 1024;

/// How many threads a row of this width gets: whole warps, of 8 elements for each thread.
inline dim3 row_threads(std::int64_t width) {
  return dim3(std::clamp(blocks_for(width, 256) * 32, 32u, most_row_threads));
}

/// Calls body(c, pack) for the packs of N elements of a row that are this thread's, with their
/// first column c. N divides the width.
template <int N, class T, class Body>
__device__ void for_packs(const T* row, std::int64_t width, Body body) {
  for (std::int64_t c = std::int64_t{threadIdx.x} * N; c < width; c += blockDim.x * N)
    body(c, load<Pack<T, N>>(row + c));
}

/// A row's maximum, and the sum of exp(x - maximum).
struct ExpSum {
  float top, sum;
};

/// In one pass: when a larger maximum comes, the sum so far shrinks. NaN gets into the sum.
/// source: Milakov and Gimelshein 2018, algorithm 3
template <int N, class T>
__device__ ExpSum exp_sum(const T* row, std::int64_t width) {
  float top = -3.402823466e38f, sum = 0;  // the lowest number: differences to it are not NaN
  for_packs<N>(row, width, [&](std::int64_t, const Pack<T, N>& x) {
    for (int j = 0; j < N; ++j) {
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
