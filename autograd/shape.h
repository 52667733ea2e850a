// Shape: the sizes of a tensor's dimensions, outermost first; row-major, contiguous. Walks: the
// places of two tensors' elements for each element of a shape that both broadcast to.
// Not here: strided tensors. Slices and transposes are copies. Chapter 01.
#pragma once

#include <initializer_list>

#include "autograd/dtype.h"

namespace plangrad::autograd {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::vector(sizes)) {}
  explicit Shape(std::vector<std::int64_t> sizes);

  int rank() const { return static_cast<int>(sizes_.size()); }
  /// Number of elements; 1 for a scalar, whose shape is ().
  std::int64_t numel() const { return product(0, rank()); }
  /// Size of dimension i; negative i counts from the end.
  /// throws: Error if there is no such dimension
  std::int64_t operator[](int i) const { return sizes_[axis(i)]; }
  /// Dimension i counted from 0, also if i is negative; checks i as operator[] does.
  int axis(int i) const;
  /// Product of the sizes of dimensions [first, last).
  std::int64_t product(int first, int last) const;

  /// This shape with dimension i set to `size`.
  Shape with(int i, std::int64_t size) const;
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> sizes_;
};

/// The smallest shape that a and b broadcast to by NumPy's rule (align at the end; 1 stretches).
/// throws: Error if the shapes do not fit
Shape broadcast(const Shape& a, const Shape& b);

std::ostream& operator<<(std::ostream& out, const Shape& shape);

/// One dimension of a walk over tensors a and b: its size, and the number of elements by which a
/// step moves in each tensor, which is 0 if the tensor is stretched there.
struct WalkStep {
  std::int64_t size, a, b;
};

/// The walk over the dimensions of `shape`, outermost first. Dimensions that both tensors cross
/// evenly are merged, so that most walks have one or two; those of size 1 are left out.
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

/// The dimensions that one pass of a reduction of x to y reduces: the last run of neighbouring
/// dimensions that are smaller in y. The pass sees x as (outer, reduced, inner).
struct ReducedRun {
  int first, last;  ///< dimensions [first, last)
  std::int64_t outer, reduced, inner;

  ReducedRun(const Shape& x, const Shape& y);
};

}  // namespace plangrad::autograd
