// The softmax of numbers that come one after the other.
// Not here: kernels. Milakov and Gimelshein 2018, "Online normalizer calculation for softmax".
#pragma once

#include <cmath>

#include "cuda/launch/device.h"

namespace plangrad::cuda::kernels {

// [snippet online]
/// The largest of the numbers so far, and the sum of e^(number - largest).
struct Online {
  float largest = -INFINITY, sum = 0;

  __device__ void add(float x) {
    const float before = largest;
    largest = max(before, x);
    sum = sum * expf(before - largest) + expf(x - largest);  // e^(-inf) is 0
  }
  __device__ float share(float x) const { return expf(x - largest) / sum; }
};
// [end snippet]

/// Makes the state of all lanes' numbers out of those of each lane's.
__device__ inline Online over_warp(Online mine) {
  const float largest = warp_max(mine.largest);
  return {largest, warp_sum(mine.sum * expf(mine.largest - largest))};
}

}  // namespace plangrad::cuda::kernels
