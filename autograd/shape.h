// Shape: the sizes of a tensor's dimensions, outermost first; row-major, contiguous.
// Not here: strides. A tensor that is cut or transposed is copied, so none are needed.
// Chapter 01.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <ostream>
#include <vector>

namespace paragrad::autograd {

class Shape {
 public:
  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes);
  explicit Shape(std::vector<std::int64_t> sizes);

  int rank() const { return static_cast<int>(sizes_.size()); }
  /// Number of elements; 1 for a scalar, whose shape is ().
  std::int64_t numel() const;
  /// Size of dimension i; negative i counts from the end.
  /// throws: Error if there is no such dimension
  std::int64_t operator[](int i) const;
  /// i as a number from 0, with the check of operator[].
  int axis(int i) const;
  /// Product of the sizes of dimensions [first, last).
  std::int64_t product(int first, int last) const;

  /// The same shape with dimension i set to `size`.
  Shape with(int i, std::int64_t size) const;
  const std::vector<std::int64_t>& sizes() const { return sizes_; }
  bool operator==(const Shape&) const = default;

 private:
  std::vector<std::int64_t> sizes_;
};

/// The smallest shape that both broadcast to, by NumPy's rule (align at the end; 1 stretches).
/// throws: Error if they do not fit
Shape broadcast(const Shape& a, const Shape& b);

std::ostream& operator<<(std::ostream& out, const Shape& shape);

}  // namespace paragrad::autograd
