// Pooling kernels: the maximum and the average of every window of an image.
// Not here: the average over a whole image, which is a reduction.
// Chapter 02.
#include <limits>

#include "autograd/cpu/cpu_backend.h"
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
  std::int64_t window_size() const { return std::int64_t{window.height} * window.width; }
  std::int64_t work() const { return outputs() * window_size(); }

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

void CpuBackend::average_pool2d(In x, Window window, Out y) {
  const PooledPlanes p(x, y, window);
  dispatch(x.dtype(), [&]<class T>() {
    Compute<T> count = static_cast<Compute<T>>(p.window_size());
    for_planes(x, p.work(), [&](std::int64_t plane) {
      const T* in = x.data<T>() + plane * p.size();
      for (std::int64_t o = 0; o < p.outputs(); ++o) {
        Compute<T> sum = 0;
        p.for_read(o, [&](std::int64_t at) { sum += in[at]; });
        y.data<T>()[plane * p.outputs() + o] = sum / count;
      }
    });
  });
}

void CpuBackend::average_pool2d_backward(In dy, Window window, Out dx) {
  const PooledPlanes p(dx, dy, window);
  dispatch(dx.dtype(), [&]<class T>() {
    Compute<T> count = static_cast<Compute<T>>(p.window_size());
    for_planes(dx, p.work(), [&](std::int64_t plane) {
      std::vector<Compute<T>> sum(p.size());
      const T* d = dy.data<T>() + plane * p.outputs();
      for (std::int64_t o = 0; o < p.outputs(); ++o)
        p.for_read(o, [&](std::int64_t at) { sum[at] += Compute<T>(d[o]) / count; });
      std::copy(sum.begin(), sum.end(), dx.data<T>() + plane * p.size());
    });
  });
}

}  // namespace plangrad::autograd
