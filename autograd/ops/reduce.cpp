// Reduced dimensions stay, with size 1, so that broadcasting spreads the gradient of a sum over
// them. A mean is a scaled sum; other operations undo their broadcasting by sum_to.
// Chapter 01.
#include "autograd/ops.h"

#include "autograd/backend.h"

namespace plangrad::autograd {

namespace {

Shape reduced(Shape shape, const std::vector<int>& axes) {
  for (int axis : axes) shape = shape.with(axis, 1);
  return shape;
}

/// dy, repeated over the dimensions in which `shape` is larger.
Tensor stretch(const Tensor& dy, const Shape& shape) {
  Tensor dx = zeros(shape, dy.dtype(), dy.device());
  dy.backend().binary(Binary::add, dx, dy, dx);
  return dx;
}

Tensor reduce(Reduction op, const Tensor& x, const std::vector<int>& axes) {
  Tensor y = empty(reduced(x.shape(), axes), x.dtype(), x.device());
  x.backend().reduce(op, x, y);
  return y;
}

}  // namespace

Tensor sum(const Tensor& x, const std::vector<int>& axes) {
  return record(reduce(Reduction::sum, x, axes), "sum", x,
                [shape = x.shape()](const Tensor& dy) { return stretch(dy, shape); });
}

Tensor mean(const Tensor& x, const std::vector<int>& axes) {
  double count = static_cast<double>(x.numel()) / reduced(x.shape(), axes).numel();
  return affine(sum(x, axes), 1 / count);
}

Tensor max(const Tensor& x, const std::vector<int>& axes) {
  Tensor y = reduce(Reduction::max, x, axes);
  return record(y, "max", x, [x, y](const Tensor& dy) {
    Tensor dx = empty_like(x);
    x.backend().max_backward(x, y, dy, dx);
    return dx;
  });
}

Tensor sum(const Tensor& x) { return sum_to(x, {}); }
Tensor mean(const Tensor& x) { return affine(sum(x), 1 / static_cast<double>(x.numel())); }

Tensor sum_to(const Tensor& x, const Shape& shape) {
  if (x.shape() == shape) return x;
  // Align shapes at the end, and sum over leading dimensions that `shape` lacks.
  int extra = x.shape().rank() - shape.rank();
  std::vector<int> axes;
  for (int i = 0; i < x.shape().rank(); ++i)
    if (i < extra || (shape[i - extra] == 1 && x.size(i) != 1)) axes.push_back(i);
  return reshape(sum(x, axes), shape);
}

}  // namespace plangrad::autograd
