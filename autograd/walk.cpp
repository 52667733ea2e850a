// Merges the dimensions of walks, and finds the runs of reductions.
// Not here: loops over elements.
// Chapter 01, broadcasting.
#include "autograd/walk.h"

namespace paragrad::autograd {

namespace {

/// The stride of x along dimension i of `shape`; 0 if x is stretched there.
std::int64_t stride(const Shape& x, const Shape& shape, int i) {
  const int at = i - shape.rank() + x.rank();
  return at < 0 || x[at] == 1 ? 0 : x.product(at + 1, x.rank());
}

}  // namespace

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

}  // namespace paragrad::autograd
