// Walk: how the elements of two tensors stand beside those of a shape that both broadcast to.
// Not here: what is computed from them.
// Chapter 01, broadcasting.
#pragma once

#include "cuda/backend/cuda_backend.h"

namespace paragrad::cuda {

/// The most dimensions of a tensor whose places a kernel computes.
constexpr int most_dimensions = 8;

/// Sizes, outermost first, with the strides of a and b, which are 0 where those are stretched.
/// Dimensions that both cross evenly are one.
struct Walk {
  int rank = 0;
  std::int64_t sizes[most_dimensions], a[most_dimensions], b[most_dimensions];

  /// Where in a and b element i of the shape is.
  __device__ void places(std::int64_t i, std::int64_t& in_a, std::int64_t& in_b) const {
    in_a = in_b = 0;
    for (int d = rank - 1; d >= 0; --d) {
      const std::int64_t at = i % sizes[d];
      in_a += at * a[d];
      in_b += at * b[d];
      i /= sizes[d];
    }
  }
};

/// throws: Error if it has too many dimensions
Walk make_walk(const autograd::Shape& a, const autograd::Shape& b, const autograd::Shape& shape);

}  // namespace paragrad::cuda
