// Kernels on images: the maximum of every window; batch norm: each channel's statistics,
// normalisation by them, and the gradient of both.
// Not here: convolution (convolution.cpp); averages, which are convolutions or reductions
// (autograd/ops/image.cpp); and running statistics, which travel like gradients (autograd/ops.h).
// Chapter 02; Ioffe and Szegedy 2015.
#include <limits>

#include "autograd/cpu/parallel.h"

namespace plangrad::autograd {

namespace {

/// Calls body(n) for each of the N * C planes of an image tensor.
template <class Body>
void for_planes(const Tensor& x, std::int64_t work, Body&& body) {
  cpu::parallel_each(x.size(0) * x.size(1), work, body);
}

/// A window that slides over planes of height x width, and the sizes of the results.
struct PooledPlanes {
  std::int64_t height, width, out_height, out_width;
  Window window;

  PooledPlanes(const Tensor& x, const Tensor& y, Window window)
      : height(x.size(2)),
        width(x.size(3)),
        out_height(y.size(2)),
        out_width(y.size(3)),
        window(window) {}

  std::int64_t size() const { return height * width; }
  std::int64_t outputs() const { return out_height * out_width; }
  std::int64_t work() const { return outputs() * window.height * window.width; }

  /// Calls body(position in the plane) for each element that window o of a plane reads.
  template <class Body>
  void for_read(std::int64_t o, Body body) const {
    std::int64_t top = o / out_width * window.stride - window.padding;
    std::int64_t left = o % out_width * window.stride - window.padding;
    std::int64_t bottom = std::min(top + window.height, height);
    std::int64_t right = std::min(left + window.width, width);
    for (std::int64_t i = std::max<std::int64_t>(top, 0); i < bottom; ++i)
      for (std::int64_t j = std::max<std::int64_t>(left, 0); j < right; ++j) body(i * width + j);
  }
};

}  // namespace

// Ties go to the first element; if there are NaNs, the last one wins.
void CpuBackend::max_pool2d(In x, Window window, Out y, Out index) {
  const PooledPlanes p(x, y, window);
  dispatch(x.dtype(), [&]<class T>() {
    for_planes(x, p.work(), [&](std::int64_t plane) {
      const T* in = x.data<T>() + plane * p.size();
      for (std::int64_t o = 0; o < p.outputs(); ++o) {
        Compute<T> top = -std::numeric_limits<Compute<T>>::infinity();
        std::int64_t best = -1;
        p.for_read(o, [&](std::int64_t at) {
          Compute<T> value = in[at];
          if (!(value > top) && value == value && best >= 0) return;
          top = value;
          best = at;
        });
        y.data<T>()[plane * p.outputs() + o] = in[best];
        index.data<std::int32_t>()[plane * p.outputs() + o] = static_cast<std::int32_t>(best);
      }
    });
  });
}

void CpuBackend::max_pool2d_backward(In dy, In index, Out dx) {
  const PooledPlanes p(dx, dy, {});
  dispatch(dx.dtype(), [&]<class T>() {
    for_planes(dx, p.size(), [&](std::int64_t plane) {
      std::vector<Compute<T>> sum(p.size());  // windows may overlap
      const T* d = dy.data<T>() + plane * p.outputs();
      const std::int32_t* at = index.data<std::int32_t>() + plane * p.outputs();
      for (std::int64_t o = 0; o < p.outputs(); ++o) sum[at[o]] += d[o];
      std::copy(sum.begin(), sum.end(), dx.data<T>() + plane * p.size());
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
