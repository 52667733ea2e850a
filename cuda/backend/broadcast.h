// Walk: a walk over two tensors (autograd/walk.h) as a kernel's parameter.
// Not here: what is computed from it.
// Chapter 01, broadcasting.
#pragma once

#include <algorithm>

#include "autograd/walk.h"
#include "cuda/backend/cuda_backend.h"

namespace paragrad::cuda {

using autograd::WalkPlace;
using autograd::WalkStep;

/// The most dimensions of a tensor whose places a kernel computes.
constexpr int most_dimensions = 8;

struct Walk {
  int rank = 0;
  WalkStep steps[most_dimensions];

  /// throws: Error if there are too many dimensions
  Walk(const std::vector<WalkStep>& walk, const char* purpose, const autograd::Shape& shape)
      : rank(static_cast<int>(walk.size())) {
    PG_CHECK(rank <= most_dimensions, "cuda: expected at most ", most_dimensions, " dimensions to ",
             purpose, ", got ", shape);
    std::copy(walk.begin(), walk.end(), steps);
  }
  __device__ WalkPlace place(std::int64_t i) const { return place_of(steps, rank, i); }
};

/// throws: Error if it has too many dimensions
inline Walk make_walk(const Tensor& a, const Tensor& b, const Tensor& y) {
  return {walk_over(y.shape(), a.shape(), b.shape()), "broadcast over", y.shape()};
}

}  // namespace paragrad::cuda
