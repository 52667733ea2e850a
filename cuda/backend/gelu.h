// GELU in GPT-2's form, and its slope, in kernels.
// Not here: the CPU's, by a polynomial that vectorises (autograd/cpu/vector_math.h).
// Hendrycks and Gimpel 2016; chapter 03.
#pragma once

#include "cuda/launch/device.h"

namespace paragrad::cuda {

// With u = sqrt(2/pi) (x + 0.044715 x^3):  (1 + tanh u) / 2 = sigmoid(2u).
constexpr float gelu_scale = 2 * 0.79788456080286535588f;

__device__ inline float gelu_sigmoid(float x) {
  return 1 / (1 + expf(-gelu_scale * x * (1 + 0.044715f * x * x)));
}

__device__ inline float gelu(float x) { return x * gelu_sigmoid(x); }

/// d gelu(x) / dx
__device__ inline float gelu_slope(float x) {
  const float s = gelu_sigmoid(x);
  return s + x * s * (1 - s) * gelu_scale * (1 + 3 * 0.044715f * x * x);
}

}  // namespace paragrad::cuda
