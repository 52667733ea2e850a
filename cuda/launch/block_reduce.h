// Sums and maxima over the threads of a block, in every thread.
// Not here: those over a warp (cuda/launch/device.h).
// CUDA C++ Programming Guide, warp shuffle functions.
#pragma once

#include "cuda/launch/device.h"

namespace paragrad::cuda {

/// Each warp reduces its values, then each reduces the warps' results, so that all threads have it
/// in the same order of additions. The block has whole warps; all of its threads call this.
template <class T, class Warp>
__device__ T block_reduce(T value, T nothing, Warp across_warp) {
  __shared__ T of_warps[32];
  const int lane = threadIdx.x % 32, warps = blockDim.x / 32;
  value = across_warp(value);
  if (warps == 1) return value;
  __syncthreads();  // nobody reads the results of an earlier call any more
  if (lane == 0) of_warps[threadIdx.x / 32] = value;
  __syncthreads();
  return across_warp(lane < warps ? of_warps[lane] : nothing);
}

template <class T>
__device__ T block_sum(T value) {
  return block_reduce(value, T(0), [](T x) { return warp_sum(x); });
}

/// Of numbers and NaN, the numbers' maximum.
__device__ inline float block_max(float value) {
  return block_reduce(value, value, [](float x) { return warp_max(x); });
}

}  // namespace paragrad::cuda
