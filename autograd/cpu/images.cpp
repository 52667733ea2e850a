// Kernels on images: the maximum of every window; batch norm: each channel's statistics,
// normalisation by them, and the gradient of both.
// Not here: convolution (convolution.cpp); averages, which are convolutions or reductions
// (autograd/ops/image.cpp); and running statistics, which travel like gradients (autograd/ops.h).
// Chapter 02; Ioffe and Szegedy 2015.
#include "autograd/cpu/parallel.h"
#include "autograd/formulas.h"

namespace plangrad::autograd {

void CpuBackend::max_pool2d(In x, Window window, Out y, Out index) {
  const SlidingPlanes p(x, y, window);
  const int outputs = p.out_height * p.out_width;
  const std::int64_t planes = x.size(0) * x.size(1), area = window.height * window.width;
  dispatch(x.dtype(), [&]<class T>() {
    cpu::parallel_each(planes, outputs * area, [&](std::int64_t plane) {
      const T* in = x.data<T>() + plane * p.height * p.width;
      for (int o = 0; o < outputs; ++o) {
        const int best = p.place_of_max(o, [in](int at) { return Compute<T>(in[at]); });
        y.data<T>()[plane * outputs + o] = in[best];
        index.data<std::int32_t>()[plane * outputs + o] = best;
      }
    });
  });
}

void CpuBackend::max_pool2d_backward(In dy, In index, Out dx) {
  const std::int64_t size = dx.size(2) * dx.size(3), outputs = dy.size(2) * dy.size(3);
  dispatch(dx.dtype(), [&]<class T>() {
    cpu::parallel_each(dx.size(0) * dx.size(1), size, [&](std::int64_t plane) {
      std::vector<Compute<T>> sum(size);  // windows may overlap
      const T* d = dy.data<T>() + plane * outputs;
      const std::int32_t* at = index.data<std::int32_t>() + plane * outputs;
      for (std::int64_t o = 0; o < outputs; ++o) sum[at[o]] += d[o];
      std::copy(sum.begin(), sum.end(), dx.data<T>() + plane * size);
    });
  });
}

namespace {

/// The layout of x (N,C,H,W): plane (n,c) is a run of H * W values.
struct Planes {
  std::int64_t images, channels, size;

  explicit Planes(const Tensor& x)
      : images(x.size(0)), channels(x.size(1)), size(x.size(2) * x.size(3)) {}

  double count() const { return static_cast<double>(images * size); }  // values in a channel

  /// Calls body(c) for each channel.
  template <class Body>
  void for_channels(Body&& body) const {
    cpu::parallel_each(channels, images * size, body);
  }

  /// Sums value(i) over the positions i of channel c; the sums of planes are added in f64.
  template <class C, class Value>
  double sum(std::int64_t c, Value value) const {
    double total = 0;
    for (std::int64_t n = 0; n < images; ++n) {
      std::int64_t first = (n * channels + c) * size;
      total += cpu::fold_in_turn<16>(first, first + size, C(0), std::plus<C>(), value);
    }
    return total;
  }

  /// y[i] = value(i) at the positions i of channel c.
  template <class T, class Value>
  void write(std::int64_t c, T* y, Value value) const {
    for (std::int64_t n = 0; n < images; ++n) {
      std::int64_t first = (n * channels + c) * size;
#pragma omp simd
      for (std::int64_t i = first; i < first + size; ++i) y[i] = value(i);
    }
  }
};

template <class C>
C inverse_deviation(C variance, double epsilon) {
  return static_cast<C>(1 / std::sqrt(static_cast<double>(variance) + epsilon));
}

}  // namespace

void CpuBackend::batch_norm_statistics(In x, Out mean, Out variance) {
  Planes planes(x);
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T* in = x.data<T>();
    C *means = mean.data<C>(), *variances = variance.data<C>();
    // Read x twice: the sum of squares minus the square of the sum would cancel.
    planes.for_channels([=](std::int64_t c) {
      C m = static_cast<C>(planes.sum<C>(c, [=](std::int64_t i) { return C(in[i]); }) /
                           planes.count());
      auto square = [=](std::int64_t i) { return (C(in[i]) - m) * (C(in[i]) - m); };
      means[c] = m;
      variances[c] = static_cast<C>(planes.sum<C>(c, square) / planes.count());
    });
  });
}

void CpuBackend::batch_norm_apply(In x, In mean, In variance, In weight, In bias, double epsilon,
                                  Out y) {
  Planes planes(x);
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T *in = x.data<T>(), *w = weight.data<T>(), *b = bias.data<T>();
    const C *means = mean.data<C>(), *variances = variance.data<C>();
    T* out = y.data<T>();
    planes.for_channels([=](std::int64_t c) {
      C m = means[c], scale = C(w[c]) * inverse_deviation(variances[c], epsilon), shift = b[c];
      planes.write(c, out, [=](std::int64_t i) { return (C(in[i]) - m) * scale + shift; });
    });
  });
}

void CpuBackend::batch_norm_backward(In x, In mean, In variance, In weight, double epsilon, In dy,
                                     Out dx, Out dweight, Out dbias) {
  Planes planes(x);
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    const T *in = x.data<T>(), *d = dy.data<T>(), *w = weight.data<T>();
    const C *means = mean.data<C>(), *variances = variance.data<C>();
    C *dw = dweight.data<C>(), *db = dbias.data<C>();
    T* out = dx.data<T>();
    planes.for_channels([=](std::int64_t c) {
      C m = means[c], inverse = inverse_deviation(variances[c], epsilon);
      double along = planes.sum<C>(c, [=](std::int64_t i) { return C(d[i]) * (C(in[i]) - m); });
      double sum = planes.sum<C>(c, [=](std::int64_t i) { return C(d[i]); });
      dw[c] = static_cast<C>(along * inverse);
      db[c] = static_cast<C>(sum);
      C scale = C(w[c]) * inverse, mean_d = static_cast<C>(sum / planes.count());
      C slope = static_cast<C>(along * inverse * inverse / planes.count());
      planes.write(c, out, [=](std::int64_t i) {
        return scale * (C(d[i]) - mean_d - (C(in[i]) - m) * slope);
      });
    });
  });
}

}  // namespace plangrad::autograd
