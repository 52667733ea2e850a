// Negative numbers count dimensions from the end, where broadcast aligns shapes. Also merges the
// dimensions of walks, and finds the runs of reductions. Chapter 01.
#include "autograd/shape.h"

#include <algorithm>

namespace plangrad::autograd {

Shape::Shape(std::vector<std::int64_t> sizes) : sizes_(std::move(sizes)) {
  for (std::int64_t size : sizes_) PG_CHECK(size >= 0, "shape ", *this, " has a negative size");
}

int Shape::axis(int i) const {
  int from_start = i < 0 ? i + rank() : i;
  PG_CHECK(from_start >= 0 && from_start < rank(), "shape ", *this, " has no dimension ", i);
  return from_start;
}

std::int64_t Shape::product(int first, int last) const {
  std::int64_t result = 1;
  for (int i = first; i < last; ++i)
    PG_CHECK(!__builtin_mul_overflow(result, sizes_[i], &result), "shape ", *this,
             " has more elements than 64 bits can count");
  return result;
}

Shape Shape::with(int i, std::int64_t size) const {
  Shape result = *this;
  result.sizes_[axis(i)] = size;
  return result;
}

Shape broadcast(const Shape& a, const Shape& b) {
  std::vector<std::int64_t> sizes(std::max(a.rank(), b.rank()));
  for (int i = 1; i <= static_cast<int>(sizes.size()); ++i) {
    std::int64_t p = i <= a.rank() ? a[-i] : 1;
    std::int64_t q = i <= b.rank() ? b[-i] : 1;
    PG_CHECK(p == q || p == 1 || q == 1, "shapes ", a, " and ", b, " do not broadcast");
    sizes[sizes.size() - i] = p == 1 ? q : p;
  }
  return Shape(std::move(sizes));
}

std::ostream& operator<<(std::ostream& out, const Shape& shape) {
  out << '(';
  for (int i = 0; i < shape.rank(); ++i) out << (i ? "," : "") << shape[i];
  return out << ')';
}

/// The stride of x along dimension i of `shape`; 0 if x is stretched there.
static std::int64_t stride(const Shape& x, const Shape& shape, int i) {
  const int at = i - shape.rank() + x.rank();
  return at < 0 || x[at] == 1 ? 0 : x.product(at + 1, x.rank());
}

std::vector<WalkStep> walk_over(const Shape& shape, const Shape& a, const Shape& b) {
  std::vector<WalkStep> steps;
  for (int i = 0; i < shape.rank(); ++i) {
    WalkStep step{shape[i], stride(a, shape, i), stride(b, shape, i)};
    if (step.size == 1) continue;
    if (!steps.empty() && steps.back().a == step.a * step.size &&
        steps.back().b == step.b * step.size) {
      step.size *= steps.back().size;
      steps.pop_back();
    }
    steps.push_back(step);
  }
  return steps;
}

ReducedRun::ReducedRun(const Shape& x, const Shape& y) {
  auto stays = [&](int i) { return x[i] == y[i]; };
  last = x.rank();
  while (last > 0 && stays(last - 1)) --last;
  first = last;
  while (first > 0 && (!stays(first - 1) || x[first - 1] == 1)) --first;
  outer = x.product(0, first);
  reduced = x.product(first, last);
  inner = x.product(last, x.rank());
}

}  // namespace plangrad::autograd
