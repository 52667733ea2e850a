// Walks: where the elements of two tensors stand beside those of a shape that both broadcast to.
// Not here: what is computed from them (autograd/cpu/elementwise.cpp, cuda/backend/binary.cu).
// Chapter 01, broadcasting.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/dtype.h"
#include "autograd/shape.h"

namespace paragrad::autograd {

/// One dimension of a walk over tensors a and b: its size, and by how many elements a step moves in
/// each of them, which is 0 where the tensor is stretched.
struct WalkStep {
  std::int64_t size, a, b;
};

/// The dimensions of `shape`, outermost first. Those that both tensors cross evenly are merged, so
/// that most walks have one or two, and those of size 1 are left out.
std::vector<WalkStep> walk_over(const Shape& shape, const Shape& a, const Shape& b);

/// The places of an element in a and in b.
struct WalkPlace {
  std::int64_t a = 0, b = 0;
};

/// The place of element i of a walk over `count` dimensions.
PG_HOST_DEVICE inline WalkPlace place_of(const WalkStep* steps, int count, std::int64_t i) {
  WalkPlace place;
  for (const WalkStep* step = steps + count; step-- != steps;) {
    const std::int64_t at = i % step->size;
    place.a += at * step->a;
    place.b += at * step->b;
    i /= step->size;
  }
  return place;
}

/// What one pass of a reduction reduces of x, which it takes as (outer, reduced, inner): the last
/// run of neighbouring dimensions that are smaller in y.
struct ReducedRun {
  int first, last;  ///< dimensions [first, last)
  std::int64_t outer, reduced, inner;

  ReducedRun(const Shape& x, const Shape& y);
};

}  // namespace paragrad::autograd
