// Sums and maxima over the threads of a block, for every thread, and sums of earlier threads;
// places of columns in shared memory, and values of columns that warps combine.
// Not here: sums and maxima over a warp (cuda/launch/device.h).
// CUDA C++ Programming Guide, warp shuffle functions; Harris, Sengupta and Owens 2007, "Parallel
// prefix sum (scan) with CUDA". All threads of a block, which has whole warps, call these.
#pragma once

#include "cuda/launch/device.h"

namespace plangrad::cuda {

/// Reduces over a block: each warp reduces its values, then the results of all warps, so that all
/// threads get the result of the same order of additions.
template <class T, class Warp>
__device__ T block_reduce(T value, T nothing, Warp across_warp) {
  __shared__ T of_warps[32];
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = across_warp(value);
  if (warps == 1) return value;
  __syncthreads();  // all threads have read the results of an earlier call
  if (lane == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  return across_warp(lane < warps ? of_warps[lane] : nothing);
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T(0), [](T x) { return warp_sum(x); });
}

/// The maximum over a block; NaN is ignored if there are numbers.
__device__ inline float block_max(float value) {
  return block_reduce(value, value, [](float x) { return warp_max(x); });
}

/// The sum of the values of the threads before this one; `total` receives the sum over all threads.
template <class T>
__device__ T block_sum_before(T value, T& total) {
  __shared__ T of_warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  T sum = value;  // of the lanes up to this one
  for (int offset = 1; offset < 32; offset *= 2) {
    const T before = __shfl_up_sync(~0u, sum, offset);
    if (lane >= offset) sum += before;
  }
  __syncthreads();  // all threads have read the sums of an earlier call
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  total = 0;
  for (int i = 0; i < warps; ++i) {
    if (i == warp) sum += total;
    total += of_warps[i];
  }
  return sum - value;
}

// [snippet places]
/// Places for `width` columns in shared memory, a multiple of 32 N. A warp that takes every N-th
/// column, as threads with packs of N neighbours do, or 32 neighbours, meets no bank twice.
template <int N, int width>
struct ColumnPlaces {
  static constexpr int count = width + 32;
  /// Columns c, c + N, ... are neighbours. The next row of them begins 32 / N banks further on.
  static __device__ int of(int c) { return c % N * (count / N) + c / N; }
};
// [end snippet]

/// Calls body(c, result) once for each column c < 32 N of a block of (32,warps) threads: thread
/// (i,w) has warp w's values of columns N i to N i + N - 1, which are combined in the warps' order.
/// A kernel does this once.
template <int most_warps, int N, class Combine, class Body>
__device__ void for_columns_of_warps(const float (&values)[N], Combine combine, Body body) {
  using Places = ColumnPlaces<N, 32 * N>;
  __shared__ float of_warps[most_warps][Places::count];
  for (int j = 0; j < N; ++j) of_warps[threadIdx.y][Places::of(threadIdx.x * N + j)] = values[j];
  __syncthreads();
  for (int c = threadIdx.y * 32 + threadIdx.x; c < 32 * N; c += 32 * blockDim.y) {
    float result = of_warps[0][Places::of(c)];
    for (unsigned w = 1; w < blockDim.y; ++w) result = combine(result, of_warps[w][Places::of(c)]);
    body(c, result);
  }
}

}  // namespace plangrad::cuda
