// GELU, for the rungs that end a product with it.
// Not here: its gradient. Hendrycks and Gimpel 2016, "Gaussian Error Linear Units".
#pragma once

#include "tutorials/kernels/ladder.h"

namespace plangrad::cuda::kernels {

/// x / 2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
__device__ inline float gelu(float x) {
  return 0.5f * x * (1 + tanhf(0.79788456f * (x + 0.044715f * x * x * x)));
}

}  // namespace plangrad::cuda::kernels
