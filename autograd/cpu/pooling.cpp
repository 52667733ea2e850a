// Pooling kernels: the maximum and the average of every window of an image.
// Not here: the average over a whole image, which is a reduction.
// Chapter 02.
#include <limits>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/cpu/parallel.h"

namespace paragrad::autograd {

namespace {

/// Calls body(n) for each of the N * C planes of an image tensor.
template <class Body>
void for_planes(const Tensor& x, std::int64_t work, Body&& body) {
  cpu::parallel_each(x.size(0) * x.size(1), work, body);
}

/// The part of a window that lies inside an image of height x width.
struct Inside {
  std::int64_t top, bottom, left, right;

  Inside(Window window, std::int64_t h, std::int64_t w, std::int64_t height, std::int64_t width) {
    std::int64_t y = h * window.stride - window.padding, x = w * window.stride - window.padding;
    top = std::max<std::int64_t>(y, 0);
    left = std::max<std::int64_t>(x, 0);
    bottom = std::min(y + window.height, height);
    right = std::min(x + window.width, width);
  }
};

/// The position of the largest value of a window; of equals the first, of NaNs the last.
template <class T>
std::int64_t find_max(const T* plane, std::int64_t width, Inside inside) {
  using C = Compute<T>;
  std::int64_t best = inside.top * width + inside.left;
  C top = -std::numeric_limits<C>::infinity();
  for (std::int64_t i = inside.top; i < inside.bottom; ++i)
    for (std::int64_t j = inside.left; j < inside.right; ++j) {
      C value = plane[i * width + j];
      if (!(value > top) && value == value) continue;
      top = value;
      best = i * width + j;
    }
  return best;
}

}  // namespace

void CpuBackend::max_pool2d(In x, Window window, Out y, Out index) {
  std::int64_t height = x.size(2), width = x.size(3), h = y.size(2), w = y.size(3);
  dispatch(x.dtype(), [&]<class T>() {
    for_planes(x, h * w * window.height * window.width, [&](std::int64_t plane) {
      const T* in = x.data<T>() + plane * height * width;
      T* out = y.data<T>() + plane * h * w;
      std::int32_t* at = index.data<std::int32_t>() + plane * h * w;
      for (std::int64_t o = 0; o < h * w; ++o) {
        std::int64_t best = find_max(in, width, {window, o / w, o % w, height, width});
        out[o] = in[best];
        at[o] = static_cast<std::int32_t>(best);
      }
    });
  });
}

void CpuBackend::max_pool2d_backward(In dy, In index, Out dx) {
  std::int64_t size = dx.size(2) * dx.size(3), outputs = dy.size(2) * dy.size(3);
  dispatch(dx.dtype(), [&]<class T>() {
    for_planes(dx, size, [&](std::int64_t plane) {
      std::vector<Compute<T>> sum(size);  // windows may overlap
      const T* d = dy.data<T>() + plane * outputs;
      const std::int32_t* at = index.data<std::int32_t>() + plane * outputs;
      for (std::int64_t o = 0; o < outputs; ++o) sum[at[o]] += d[o];
      std::copy(sum.begin(), sum.end(), dx.data<T>() + plane * size);
    });
  });
}

void CpuBackend::average_pool2d(In x, Window window, Out y) {
  std::int64_t height = x.size(2), width = x.size(3), h = y.size(2), w = y.size(3);
  dispatch(x.dtype(), [&]<class T>() {
    using C = Compute<T>;
    C count = static_cast<C>(window.height * window.width);
    for_planes(x, h * w * window.height * window.width, [&](std::int64_t plane) {
      const T* in = x.data<T>() + plane * height * width;
      T* out = y.data<T>() + plane * h * w;
      for (std::int64_t o = 0; o < h * w; ++o) {
        Inside inside(window, o / w, o % w, height, width);
        C sum = 0;
        for (std::int64_t i = inside.top; i < inside.bottom; ++i)
          for (std::int64_t j = inside.left; j < inside.right; ++j) sum += in[i * width + j];
        out[o] = sum / count;
      }
    });
  });
}

void CpuBackend::average_pool2d_backward(In dy, Window window, Out dx) {
  std::int64_t height = dx.size(2), width = dx.size(3), h = dy.size(2), w = dy.size(3);
  dispatch(dx.dtype(), [&]<class T>() {
    using C = Compute<T>;
    C count = static_cast<C>(window.height * window.width);
    for_planes(dx, h * w * window.height * window.width, [&](std::int64_t plane) {
      std::vector<C> sum(height * width);
      const T* d = dy.data<T>() + plane * h * w;
      for (std::int64_t o = 0; o < h * w; ++o) {
        Inside inside(window, o / w, o % w, height, width);
        for (std::int64_t i = inside.top; i < inside.bottom; ++i)
          for (std::int64_t j = inside.left; j < inside.right; ++j)
            sum[i * width + j] += C(d[o]) / count;
      }
      std::copy(sum.begin(), sum.end(), dx.data<T>() + plane * height * width);
    });
  });
}

}  // namespace paragrad::autograd
