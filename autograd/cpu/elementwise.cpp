// Element-wise kernels: functions of one and two tensors, dropout, bias with GELU.
// Not here: the gradients' formulas for callers (autograd/ops/arithmetic.cpp).
// Chapter 03.
#include <array>

#include "autograd/cpu/columns.h"
#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/map.h"
#include "autograd/cpu/vector_math.h"
#include "autograd/formulas.h"
#include "autograd/walk.h"

namespace paragrad::autograd {

namespace {

using cpu::map;
using cpu::parallel_each;

}  // namespace

void CpuBackend::unary(Unary op, In x, Out y) {
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(op, [&]<Unary f>() {
      map<T>(
          y, [](auto v) { return value_of<f, cpu::Math>(v); }, x.data<T>());
    });
  });
}

void CpuBackend::unary_backward(Unary op, In x, In y, In dy, Out dx) {
  dispatch(x.dtype(), [&]<class T>() {
    dispatch(op, [&]<Unary f>() {
      map<T>(
          dx, [](auto v, auto g) { return gradient_of<f, cpu::Math>(v, g); },
          (reads_result(f) ? y : x).data<T>(), dy.data<T>());
    });
  });
}

namespace {

template <class T, class F>
void combine(const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  using C = Compute<T>;
  if (y.numel() == 0) return;
  if (a.shape() == b.shape()) return map<T>(y, f, a.data<T>(), b.data<T>());
  std::vector<WalkStep> walk = walk_over(y.shape(), a.shape(), b.shape());
  if (walk.empty()) walk.push_back({1, 0, 0});
  const auto [inner, sa, sb] = walk.back();
  const T *pa = a.data<T>(), *pb = b.data<T>();
  T* out = y.data<T>();
  parallel_each(y.numel() / inner, inner, [&, inner = inner, sa = sa, sb = sb](std::int64_t row) {
    const WalkPlace at = place_of(walk.data(), static_cast<int>(walk.size()) - 1, row);
    T* to = out + row * inner;
#pragma omp simd
    for (std::int64_t j = 0; j < inner; ++j) to[j] = f(C(pa[at.a + j * sa]), C(pb[at.b + j * sb]));
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
      for (std::int64_t c = 0; c < width; ++c) to[c] = gelu<cpu::Math>(C(row[c]) + C(b[c]));
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
        C slope = C(g[c]) * gelu_slope<cpu::Math>(C(row[c]) + C(b[c]));
        to[c] = slope;
        sum[c] += slope;
      }
    });
  });
}

}  // namespace paragrad::autograd
