// Optimizer steps, each in one pass over segments of flat buffers.
// Not here: schedules and which parameters decay (nn/optimizers/optimizer.h).
// Chapter 02.
#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/parallel.h"

namespace plangrad::autograd {

namespace {

/// Calls step(i) for each element of a segment of `master`, and rounds the segment to `weights` if
/// that is another tensor.
template <class Step>
void update(const Segment& segment, const Tensor& master, const Tensor& weights, Step step) {
  const std::int64_t begin = segment.first, count = segment.last - begin;
  cpu::parallel_for(count, cpu::element_grain / 2, [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
    for (std::int64_t i = begin + first; i < begin + last; ++i) step(i);
  });
  auto part = [=](const Tensor& x) { return x.window(begin, {count}); };
  if (weights.raw() != master.raw()) weights.backend().copy(part(master), part(weights));
}

}  // namespace

// m <- momentum m + g,  w <- w - rate m,  with g the scaled gradient plus decay w.
void CpuBackend::sgd(const SgdStep& step, const Segments& segments, In gradient, Out momentum,
                     Out master, Out weights) {
  dispatch(master.dtype(), [&]<class C>() {
    const C* g = gradient.data<C>();
    C *m = momentum.data<C>(), *w = master.data<C>();
    C rate = C(step.learning_rate), keep = C(step.momentum), scale = C(step.gradient_scale);
    for (const Segment& segment : segments) {
      C decay = C(segment.decays ? step.weight_decay : 0);
      update(segment, master, weights, [=](std::int64_t i) {
        m[i] = keep * m[i] + (scale * g[i] + decay * w[i]);
        w[i] = w[i] - rate * m[i];
      });
    }
  });
}

// [snippet adamw]
// m <- beta1 m + (1 - beta1) g,  v <- beta2 v + (1 - beta2) g^2,
// w <- w - rate (m / (1 - beta1^t) / (sqrt(v / (1 - beta2^t)) + epsilon) + decay w)
void CpuBackend::adamw(const AdamWStep& step, const Segments& segments, In gradient,
                       Out first_moment, Out second_moment, Out master, Out weights) {
  dispatch(master.dtype(), [&]<class C>() {
    const C* g = gradient.data<C>();
    C *m = first_moment.data<C>(), *v = second_moment.data<C>(), *w = master.data<C>();
    C beta1 = C(step.beta1), beta2 = C(step.beta2), epsilon = C(step.epsilon);
    C scale = C(step.gradient_scale), rate = C(step.rate()), correction = C(step.correction());
    for (const Segment& segment : segments) {
      C shrink = C(segment.decays ? step.shrink() : 1);
      update(segment, master, weights, [=](std::int64_t i) {
        C d = scale * g[i];
        m[i] = beta1 * m[i] + (1 - beta1) * d;
        v[i] = beta2 * v[i] + (1 - beta2) * d * d;
        w[i] = shrink * w[i] - rate * m[i] / (std::sqrt(v[i]) * correction + epsilon);
      });
    }
  });
}
// [end snippet]

}  // namespace plangrad::autograd
