// Reductions and layouts. Reduced dimensions stay, with size 1, so that broadcasting spreads the
// gradient of a sum over them; a mean is a scaled sum; other operations undo their broadcasting by
// sum_to. Slices and concatenations are copies of rows of equal width, forward and backward; only a
// reshape, and a slice that stays in one piece, share memory with their input. Chapter 01.
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

/// Copies x into elements [first, first + x.size(axis)) of y's dimension `axis`; if `out`, copies
/// those elements of y into x instead.
static void copy_part(const Tensor& x, const Tensor& y, int axis, std::int64_t first,
                      bool out = false) {
  std::int64_t rows = y.shape().product(0, axis);
  std::int64_t inner = y.shape().product(axis + 1, y.shape().rank());
  std::int64_t width = x.size(axis) * inner;
  Backend::Rows part{0, width}, whole{first * inner, y.size(axis) * inner};
  if (out)
    y.backend().copy_rows(y, whole, rows, width, x, part);
  else
    x.backend().copy_rows(x, part, rows, width, y, whole);
}

static Tensor part_of(const Tensor& x, int axis, std::int64_t first, std::int64_t count) {
  Tensor y = empty(x.shape().with(axis, count), x.dtype(), x.device());
  copy_part(y, x, axis, first, true);
  return y;
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
  Shape shape = x.shape().with(axis, last - first);
  Tensor y = x.shape().product(0, axis) == 1
                 ? x.window(first * x.shape().product(axis + 1, x.shape().rank()), shape)
                 : part_of(x, axis, first, last - first);
  return record(y, "slice", x, [axis, first, whole = x.shape()](const Tensor& dy) {
    Tensor dx = zeros(whole, dy.dtype(), dy.device());
    copy_part(dy, dx, axis, first);
    return dx;
  });
}

Tensor concatenate(const std::vector<Tensor>& parts, int axis) {
  PG_CHECK(!parts.empty(), "concatenate: no parts");
  axis = parts[0].shape().axis(axis);
  std::vector<std::int64_t> sizes;
  for (const Tensor& part : parts) {
    PG_CHECK(part.shape().rank() == parts[0].shape().rank() && part.dtype() == parts[0].dtype() &&
                 part.shape().with(axis, 1) == parts[0].shape().with(axis, 1),
             "concatenate: ", part, " does not fit ", parts[0], " along dimension ", axis);
    sizes.push_back(part.size(axis));
  }
  std::int64_t total = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), first = 0;
  Tensor y = empty(parts[0].shape().with(axis, total), parts[0].dtype(), parts[0].device());
  for (const Tensor& part : parts) {
    copy_part(part, y, axis, first);
    first += part.size(axis);
  }
  return record(y, "concatenate", parts, [axis, sizes](const Tensor& dy) {
    std::vector<Tensor> gradients;
    std::int64_t first = 0;
    for (std::int64_t size : sizes) {
      gradients.push_back(part_of(dy, axis, first, size));
      first += size;
    }
    return gradients;
  });
}

}  // namespace plangrad::autograd
