// Element-wise kernels: functions of one and two tensors, dropout, bias with GELU.
// Not here: the gradients' formulas for callers (autograd/ops/arithmetic.cpp).
// Chapter 03.
#include <array>

#include "autograd/cpu/columns.h"
#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/map.h"
#include "autograd/cpu/vector_math.h"

namespace paragrad::autograd {

namespace {

using cpu::map;
using cpu::parallel_each;

}  // namespace

void CpuBackend::unary(Unary op, In x, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T* in = x.data<T>();
    switch (op) {
      case Unary::negate:
        return map<T>(
            y, [](C v) { return -v; }, in);
      case Unary::exp:
        return map<T>(
            y, [](C v) { return cpu::vector_exp(v); }, in);
      case Unary::log:
        return map<T>(
            y, [](C v) { return std::log(v); }, in);
      case Unary::sqrt:
        return map<T>(
            y, [](C v) { return std::sqrt(v); }, in);
      case Unary::tanh:
        return map<T>(
            y, [](C v) { return std::tanh(v); }, in);
      case Unary::relu:
        return map<T>(
            y, [](C v) { return v < 0 ? C(0) : v; }, in);
      case Unary::gelu:
        return map<T>(
            y, [](C v) { return cpu::gelu(v); }, in);
    }
  });
}

void CpuBackend::unary_backward(Unary op, In x, In y, In dy, Out dx) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T *in = x.data<T>(), *out = y.data<T>(), *d = dy.data<T>();
    switch (op) {
      case Unary::negate:
        return map<T>(
            dx, [](C g) { return -g; }, d);
      case Unary::exp:
        return map<T>(
            dx, [](C e, C g) { return g * e; }, out, d);
      case Unary::log:
        return map<T>(
            dx, [](C v, C g) { return g / v; }, in, d);
      case Unary::sqrt:
        return map<T>(
            dx, [](C r, C g) { return g / (2 * r); }, out, d);
      case Unary::tanh:
        return map<T>(
            dx, [](C t, C g) { return g * (1 - t * t); }, out, d);
      case Unary::relu:
        return map<T>(
            dx, [](C v, C g) { return v > 0 ? g : C(0); }, in, d);
      case Unary::gelu:
        return map<T>(
            dx, [](C v, C g) { return g * cpu::gelu_slope(v); }, in, d);
    }
  });
}

namespace {

/// How a tensor is read while walking over a shape that it broadcasts to: 0 along dimensions that
/// are stretched.
std::vector<std::int64_t> strides(const Tensor& x, const Shape& shape) {
  std::vector<std::int64_t> result(shape.rank(), 0);
  std::int64_t stride = 1;
  for (int i = 1; i <= x.shape().rank(); ++i) {
    if (x.size(-i) != 1) result[shape.rank() - i] = stride;
    stride *= x.size(-i);
  }
  return result;
}

/// A walk over two tensors at once: sizes, outermost first, with the strides of a and b. Dimensions
/// that both cross evenly are merged, so that most walks have one or two.
struct Walk {
  std::vector<std::int64_t> sizes, a, b;

  Walk(const Tensor& x, const Tensor& y, const Shape& shape) {
    auto p = strides(x, shape), q = strides(y, shape);
    for (int i = 0; i < shape.rank(); ++i) {
      std::int64_t size = shape[i];
      if (size == 1) continue;
      if (!sizes.empty() && a.back() == p[i] * size && b.back() == q[i] * size) {
        sizes.back() *= size;
        a.back() = p[i];
        b.back() = q[i];
      } else {
        sizes.push_back(size);
        a.push_back(p[i]);
        b.push_back(q[i]);
      }
    }
    if (sizes.empty()) sizes = {1}, a = {0}, b = {0};
  }
};

template <class T, class F>
void combine(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  using C = Compute<T>;
  if (y.numel() == 0) return;
  if (a.shape() == b.shape()) return map<T>(y, f, a.data<T>(), b.data<T>());
  Walk walk(a, b, y.shape());
  int rank = static_cast<int>(walk.sizes.size());
  std::int64_t inner = walk.sizes[rank - 1], sa = walk.a[rank - 1], sb = walk.b[rank - 1];
  const T *pa = a.data<T>(), *pb = b.data<T>();
  T* out = y.data<T>();
  parallel_each(y.numel() / inner, inner, [&](std::int64_t row) {
    std::int64_t rest = row, ia = 0, ib = 0;
    for (int i = rank - 2; i >= 0; --i) {
      std::int64_t at = rest % walk.sizes[i];
      ia += at * walk.a[i];
      ib += at * walk.b[i];
      rest /= walk.sizes[i];
    }
    T* to = out + row * inner;
#pragma omp simd
    for (std::int64_t j = 0; j < inner; ++j) to[j] = f(C(pa[ia + j * sa]), C(pb[ib + j * sb]));
  });
}

}  // namespace

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
    map<T>(
        y, [=](C v) { return s * v + t; }, x.data<T>());
  });
}

void CpuBackend::accumulate(In x, Out y) {
  dispatch(x.dtype(), [&]<class From>() {
    dispatch(y.dtype(), [&]<class To>() {
      using C = Compute<To>;
      map<To>(
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
    // One Philox block decides four elements; sixteen blocks are computed side by side.
    constexpr std::int64_t blocks = 16, strip = 4 * blocks;
    parallel_each((x.numel() + strip - 1) / strip, strip, [=, n = x.numel()](std::int64_t s) {
      std::int64_t start = strip * s, end = std::min(strip, n - start);
      std::uint32_t words[strip];
#pragma omp simd
      for (std::int64_t l = 0; l < blocks; ++l) {
        auto word = philox(key, start / 4 + l);
        for (int i = 0; i < 4; ++i) words[4 * l + i] = word[i];
      }
#pragma omp simd
      for (std::int64_t i = 0; i < end; ++i)
        out[start + i] = to_uniform(words[i]) < limit ? C(0) : C(in[start + i]) * keep;
    });
  });
}

void CpuBackend::bias_gelu(In x, In bias, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T *in = x.data<T>(), *b = bias.data<T>();
    T* out = y.data<T>();
    std::int64_t width = bias.numel();
    parallel_each(x.numel() / width, 4 * width, [=](std::int64_t r) {
      const T* row = in + r * width;
      T* to = out + r * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) to[c] = cpu::gelu(C(row[c]) + C(b[c]));
    });
  });
}

void CpuBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T *in = x.data<T>(), *b = bias.data<T>(), *d = dy.data<T>();
    T* out = dx.data<T>();
    std::int64_t width = bias.numel();
    cpu::sum_columns<C>(x.numel() / width, width, std::array{dbias}, [=](std::int64_t r, C* sum) {
      const T *row = in + r * width, *g = d + r * width;
      T* to = out + r * width;
#pragma omp simd
      for (std::int64_t c = 0; c < width; ++c) {
        C slope = C(g[c]) * cpu::gelu_slope(C(row[c]) + C(b[c]));
        to[c] = slope;
        sum[c] += slope;
      }
    });
  });
}

}  // namespace paragrad::autograd
