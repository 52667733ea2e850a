// Reductions and layouts. Reduced dimensions stay, with size 1, so that broadcasting spreads the
// gradient of a sum over them; a mean is a scaled sum; other operations undo their broadcasting by
// sum_to. Slices and concatenations along an inner dimension transpose it to the front first, where
// parts are in one piece; only a reshape, and a slice that is in one piece already, share memory
// with their input. Chapter 01.
#include <algorithm>
#include <numeric>

#include "autograd/backend.h"
#include "autograd/ops.h"

namespace plangrad::autograd {

static Shape reduced(Shape shape, const std::vector<int>& axes) {
  for (int axis : axes) shape = shape.with(axis, 1);
  return shape;
}

/// dy, repeated over the dimensions in which `shape` is larger.
static Tensor stretch(const Tensor& dy, const Shape& shape) {
  Tensor dx = zeros(shape, dy.dtype(), dy.device());
  dy.backend().binary(Binary::add, dx, dy, dx);
  return dx;
}

static Tensor reduce(Reduction op, const Tensor& x, const std::vector<int>& axes) {
  Tensor y = empty(reduced(x.shape(), axes), x.dtype(), x.device());
  x.backend().reduce(op, x, y);
  return y;
}

Tensor sum(const Tensor& x, const std::vector<int>& axes) {
  return record(reduce(Reduction::sum, x, axes), "sum", x,
                [shape = x.shape()](const Tensor& dy) { return stretch(dy, shape); });
}

Tensor mean(const Tensor& x, const std::vector<int>& axes) {
  double count = static_cast<double>(x.numel()) / reduced(x.shape(), axes).numel();
  return affine(sum(x, axes), 1 / count);
}

// dx = dy / n where x is one of n equal maxima, else 0
Tensor max(const Tensor& x, const std::vector<int>& axes) {
  Tensor y = reduce(Reduction::max, x, axes);
  return record(y, "max", x, [x, y, axes](const Tensor& dy) {
    // The slope of relu at y - x is 0 where x is a maximum, and 1 elsewhere.
    const Tensor distance = y - x, ones = full(x.shape(), 1, x.dtype(), x.device());
    const Tensor less = empty_like(x);
    x.backend().unary_backward(Unary::relu, distance, distance, ones, less);
    const Tensor maxima = affine(less, -1, 1);
    return maxima / sum(maxima, axes) * dy;
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

Tensor reshape(const Tensor& x, const Shape& shape) {
  PG_CHECK(shape.numel() == x.numel(), "reshape: ", x.shape(), " has ", x.numel(), " elements, ",
           shape, " has ", shape.numel());
  return record(x.window(0, shape), "reshape", x,
                [before = x.shape()](const Tensor& dy) { return dy.window(0, before); });
}

Tensor reshape(const Tensor& x, std::initializer_list<std::int64_t> sizes) {
  std::vector<std::int64_t> known(sizes);
  auto unknown = std::find(known.begin(), known.end(), -1);
  if (unknown != known.end()) {
    *unknown = 1;
    std::int64_t rest = Shape(known).numel();
    PG_CHECK(rest > 0 && x.numel() % rest == 0, "reshape: ", x.shape(), " does not divide into ",
             rest, " parts");
    *unknown = x.numel() / rest;
  }
  return reshape(x, Shape(known));
}

Tensor permute(const Tensor& x, const std::vector<int>& order) {
  int rank = x.shape().rank();
  std::vector<std::int64_t> sizes(rank);
  std::vector<int> inverse(rank, -1);
  PG_CHECK(static_cast<int>(order.size()) == rank, "permute: ", x.shape(), " has ", rank,
           " dimensions, the order names ", order.size());
  for (int i = 0; i < rank; ++i) {
    sizes[i] = x.size(order[i]);
    inverse[x.shape().axis(order[i])] = i;
  }
  PG_CHECK(std::count(inverse.begin(), inverse.end(), -1) == 0,
           "permute: the order must name each dimension of ", x.shape(), " once");
  Tensor y = empty(Shape(sizes), x.dtype(), x.device());
  x.backend().permute(x, order, y);
  return record(y, "permute", x, [inverse](const Tensor& dy) { return permute(dy, inverse); });
}

Tensor transpose(const Tensor& x, int a, int b) {
  std::vector<int> order(x.shape().rank());
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[x.shape().axis(a)], order[x.shape().axis(b)]);
  return permute(x, order);
}

Tensor slice(const Tensor& x, int axis, std::int64_t first, std::int64_t last) {
  axis = x.shape().axis(axis);
  PG_CHECK(0 <= first && first < last && last <= x.size(axis), "slice: [", first, ",", last,
           ") of dimension ", axis, " of ", x.shape());
  if (x.shape().product(0, axis) != 1)
    return transpose(slice(transpose(x, 0, axis), 0, first, last), 0, axis);
  const std::int64_t start = first * x.shape().product(axis + 1, x.shape().rank());
  const Tensor y = x.window(start, x.shape().with(axis, last - first));
  return record(y, "slice", x, [start, whole = x.shape()](const Tensor& dy) {
    Tensor dx = zeros(whole, dy.dtype(), dy.device());
    dy.backend().copy(dy, dx.window(start, dy.shape()));
    return dx;
  });
}

Tensor concatenate(const std::vector<Tensor>& parts, int axis) {
  PG_CHECK(!parts.empty(), "concatenate: no parts");
  const Shape& like = parts[0].shape();
  axis = like.axis(axis);
  std::vector<Shape> shapes;
  std::int64_t total = 0;
  for (const Tensor& part : parts) {
    PG_CHECK(part.shape().rank() == like.rank() && part.dtype() == parts[0].dtype() &&
                 part.shape().with(axis, 1) == like.with(axis, 1),
             "concatenate: ", part, " does not fit ", parts[0], " along dimension ", axis);
    shapes.push_back(part.shape());
    total += part.size(axis);
  }
  if (like.product(0, axis) != 1) {
    std::vector<Tensor> turned;
    for (const Tensor& part : parts) turned.push_back(transpose(part, 0, axis));
    return transpose(concatenate(turned, 0), 0, axis);
  }
  Tensor y = empty(like.with(axis, total), parts[0].dtype(), parts[0].device());
  std::int64_t start = 0;
  for (const Tensor& part : parts) {
    part.backend().copy(part, y.window(start, part.shape()));
    start += part.numel();
  }
  return record(y, "concatenate", parts, [shapes](const Tensor& dy) {
    std::vector<Tensor> gradients;
    std::int64_t start = 0;
    for (const Shape& shape : shapes) {
      gradients.push_back(dy.window(start, shape));
      start += shape.numel();
    }
    return gradients;
  });
}

}  // namespace plangrad::autograd
