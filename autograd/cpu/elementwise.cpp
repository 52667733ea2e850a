// Element-wise kernels: functions of one and two tensors, dropout, bias with GELU; and the steps of
// optimizers, each in one pass over segments of flat buffers.
// Not here: the gradients' formulas for callers (autograd/ops/arithmetic.cpp), learning rates and
// which parameters decay (nn/optimizers/optimizer.h). Chapters 02 and 03.
#include "autograd/cpu/parallel.h"
#include "autograd/cpu/vector_math.h"
#include "autograd/formulas.h"

namespace plangrad::autograd {

void CpuBackend::unary(Unary op, In x, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(op, [&]<Unary f>() {
      cpu::map<T>(
          y, [](auto v) { return value_of<f, cpu::Math>(v); }, x.data<T>());
    });
  });
}

void CpuBackend::unary_backward(Unary op, In x, In y, In dy, Out dx) {
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(op, [&]<Unary f>() {
      cpu::map<T>(
          dx, [](auto v, auto g) { return gradient_of<f, cpu::Math>(v, g); },
          (reads_result(f) ? y : x).data<T>(), dy.data<T>());
    });
  });
}

template <class T, class F>
static void combine(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  using C = Compute<T>;
  if (a.shape() == b.shape()) return cpu::map<T>(y, f, a.data<T>(), b.data<T>());
  auto run = [=, pa = a.data<T>(), pb = b.data<T>(), out = y.data<T>()](
                 std::int64_t first, WalkStep step, WalkPlace at) {
#pragma omp simd
    for (std::int64_t j = 0; j < step.size; ++j)
      out[first + j] = f(C(pa[at.a + j * step.a]), C(pb[at.b + j * step.b]));
  };
  cpu::for_runs(walk_over(y.shape(), a.shape(), b.shape()), y.numel(), run);
}

void CpuBackend::binary(Binary op, In a, In b, Out y) {
  dispatch(y.dtype(), [&]<class T>() {
    using C = Compute<T>;
    switch (op) {
      case Binary::add: return combine<T>(a, b, y, [](C p, C q) { return p + q; });
      case Binary::subtract: return combine<T>(a, b, y, [](C p, C q) { return p - q; });
      case Binary::multiply: return combine<T>(a, b, y, [](C p, C q) { return p * q; });
      case Binary::divide: return combine<T>(a, b, y, [](C p, C q) { return p / q; });
    }
  });
}

void CpuBackend::affine(In x, double scale, double shift, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    C s = static_cast<C>(scale), t = static_cast<C>(shift);
    cpu::map<T>(
        y, [=](C v) { return s * v + t; }, x.data<T>());
  });
}

void CpuBackend::scale_by(In factor, Out x) {
  if (cpu::without_values) return;
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const C f = factor.data<C>()[0];
    if (f == 1) return;
    cpu::map<T>(
        x, [=](C v) { return f * v; }, x.data<T>());
  });
}

void CpuBackend::accumulate(In x, Out y) {
  dispatch(x.dtype(), [&]<class From>() {
    dispatch(y.dtype(), [&]<class To>() {
      using C = Compute<To>;
      cpu::map<To>(
          y, [](auto v, C sum) { return static_cast<C>(sum + v); }, x.data<From>(), y.data<To>());
    });
  });
}

void CpuBackend::dropout(In x, double p, RandomKey key, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T* in = x.data<T>();
    T* out = y.data<T>();
    float limit = static_cast<float>(p);
    C keep = static_cast<C>(1 / (1 - p));
    constexpr std::int64_t strip = 64;
    cpu::parallel_each((x.numel() + strip - 1) / strip, strip, [=, n = x.numel()](std::int64_t s) {
      std::int64_t start = strip * s, end = std::min(strip, n - start);
      float random[strip];
      cpu::vector_uniform<strip>(key, start, random);
      const T* from = in + start;
      T* to = out + start;
#pragma omp simd
      for (std::int64_t i = 0; i < end; ++i) to[i] = random[i] < limit ? C(0) : C(from[i]) * keep;
    });
  });
}

void CpuBackend::bias_gelu(In x, In bias, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const cpu::RowsOf<T> in(x), out(y);
    in.for_each([=, b = bias.data<T>(), width = in.width](std::int64_t r) {
      const T* row = in[r];
      T* to = out[r];
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) to[c] = gelu<cpu::Math>(C(row[c]) + C(b[c]));
    });
  });
}

void CpuBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const cpu::RowsOf<T> in(x), d(dy), out(dx);
    auto run = [=, b = bias.data<T>(), width = in.width](std::int64_t r, C* sum) {
      const T *row = in[r], *g = d[r];
      T* to = out[r];
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        C slope = C(g[c]) * gelu_slope<cpu::Math>(C(row[c]) + C(b[c]));
        to[c] = slope;
        sum[c] += slope;
      }
    };
    cpu::sum_columns<C>(in.count, in.width, {dbias}, run);
  });
}

/// Calls step(i) for each element of a segment of `master`, and rounds the segment to `weights` if
/// that is another tensor.
template <class Step>
static void update(const Segment& segment, const Tensor& master, const Tensor& weights, Step step) {
  const std::int64_t begin = segment.first, count = segment.last - begin;
  cpu::parallel_for(count, cpu::element_grain / 2, [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
    for (std::int64_t i = begin + first; i < begin + last; ++i) step(i);
  });
  auto part = [=](const Tensor& x) { return x.window(begin, {count}); };
  if (weights.raw() != master.raw()) weights.backend().copy(part(master), part(weights));
}

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
