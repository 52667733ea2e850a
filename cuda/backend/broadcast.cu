// Merges dimensions, so that most walks have one or two.
// Not here: the walk itself, which kernels do.
// Chapter 01, broadcasting.
#include "cuda/backend/broadcast.h"

namespace paragrad::cuda {

namespace {

using autograd::Shape;

/// The stride of x along dimension i of `shape`; 0 if x is stretched there.
std::int64_t stride(const Shape& x, const Shape& shape, int i) {
  const int at = i - shape.rank() + x.rank();
  return at < 0 || x[at] == 1 ? 0 : x.product(at + 1, x.rank());
}

}  // namespace

Walk make_walk(const Shape& a, const Shape& b, const Shape& shape) {
  Walk walk;
  for (int i = 0; i < shape.rank(); ++i) {
    const std::int64_t size = shape[i], in_a = stride(a, shape, i), in_b = stride(b, shape, i);
    if (size == 1) continue;
    const int last = walk.rank - 1;
    if (last >= 0 && walk.a[last] == in_a * size && walk.b[last] == in_b * size) {
      walk.sizes[last] *= size;
    } else {
      PG_CHECK(walk.rank < most_dimensions, "cuda: expected at most ", most_dimensions,
               " dimensions to broadcast over, got ", shape);
      walk.sizes[walk.rank++] = size;
    }
    walk.a[walk.rank - 1] = in_a;
    walk.b[walk.rank - 1] = in_b;
  }
  return walk;
}

}  // namespace paragrad::cuda
