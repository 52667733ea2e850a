// Sums over the threads of a block that come before each.
// Not here: sums over all of them (cuda/launch/block_reduce.h).
// Harris, Sengupta and Owens 2007, "Parallel prefix sum (scan) with CUDA".
#pragma once

#include "cuda/launch/device.h"

namespace paragrad::cuda {

/// The sum of the values of the threads before this one; `total` receives that of all. The block
/// has whole warps; all of its threads call this.
template <class T>
__device__ T block_sum_before(T value, T& total) {
  __shared__ T of_warps[32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, warps = blockDim.x / 32;
  T sum = value;  // up to this lane
  for (int offset = 1; offset < 32; offset *= 2) {
    const T before = __shfl_up_sync(~0u, sum, offset);
    if (lane >= offset) sum += before;
  }
  __syncthreads();  // nobody reads the sums of an earlier call any more
  if (lane == 31) of_warps[warp] = sum;
  __syncthreads();
  total = 0;
  for (int i = 0; i < warps; ++i) {
    if (i == warp) sum += total;
    total += of_warps[i];
  }
  return sum - value;
}

}  // namespace paragrad::cuda
