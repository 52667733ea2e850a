// Pooling, with one thread per result; gradients, with one thread per pixel, which adds the pixel's
// contributions in the order of the windows.
// Not here: the average over a whole image, which is a reduction. Chapter 02.
#include <cmath>

#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {

namespace {

/// Numbers in [first, last).
struct Interval {
  int first, last;
};

/// Planes of height x width, the window that slides over them, and the sizes of the results.
struct SlidingPlanes {
  int height, width, out_height, out_width;
  Window window;

  SlidingPlanes(const Tensor& x, const Tensor& y, Window window)
      : height(static_cast<int>(x.size(2))),
        width(static_cast<int>(x.size(3))),
        out_height(static_cast<int>(y.size(2))),
        out_width(static_cast<int>(y.size(3))),
        window(window) {}

  /// The positions that window `at` reads, along a side of the image.
  __device__ Interval read(int at, int window_size, int size) const {
    const int first = at * window.stride - window.padding;
    return {max(first, 0), min(first + window_size, size)};
  }
  /// The windows that may read position `at`, along a side of the image.
  __device__ Interval readers(int at, int window_size, int out_size) const {
    const int last = at + window.padding, first = last - window_size + 1;
    return {first <= 0 ? 0 : (first + window.stride - 1) / window.stride,
            min(last / window.stride + 1, out_size)};
  }
  /// Calls body(position in the plane) for each element that window o of a plane reads.
  template <class Body>
  __device__ void for_read(int o, Body body) const {
    const Interval down = read(o / out_width, window.height, height);
    const Interval across = read(o % out_width, window.width, width);
    for (int i = down.first; i < down.last; ++i)
      for (int j = across.first; j < across.last; ++j) body(i * width + j);
  }
  /// Calls body(o) for all windows of a plane that read the position.
  template <class Body>
  __device__ void for_readers(int position, Body body) const {
    const Interval down = readers(position / width, window.height, out_height);
    const Interval across = readers(position % width, window.width, out_width);
    for (int i = down.first; i < down.last; ++i)
      for (int j = across.first; j < across.last; ++j) body(i * out_width + j);
  }
};

/// Ties go to the first value; if there are NaNs, the last one wins.
template <class T>
__device__ void max_of_window(std::int64_t i, SlidingPlanes p, const T* x, T* y, int* index) {
  const int area = p.out_height * p.out_width;
  const T* plane = x + i / area * p.height * p.width;
  float top = -INFINITY;
  int best = -1;
  p.for_read(static_cast<int>(i % area), [&](int position) {
    const float value = to_float(plane[position]);
    if (best >= 0 && !(value > top) && value == value) return;
    top = value;
    best = position;
  });
  y[i] = plane[best];
  index[i] = best;
}

template <class T>
__device__ void average_of_window(std::int64_t i, SlidingPlanes p, const T* x, T* y) {
  const int area = p.out_height * p.out_width;
  const T* plane = x + i / area * p.height * p.width;
  float sum = 0;
  p.for_read(static_cast<int>(i % area), [&](int at) { sum += to_float(plane[at]); });
  y[i] = from_float<T>(sum / static_cast<float>(p.window.height * p.window.width));
}

template <class T>
__device__ void shares_of_windows(std::int64_t i, SlidingPlanes p, const T* dy, T* dx) {
  const int size = p.height * p.width;
  const T* plane = dy + i / size * p.out_height * p.out_width;
  const auto share = static_cast<float>(p.window.height * p.window.width);
  float sum = 0;
  p.for_readers(static_cast<int>(i % size), [&](int o) { sum += to_float(plane[o]) / share; });
  dx[i] = from_float<T>(sum);
}

/// Has one block per plane, whose threads all read all indices. A thread adds the gradients of
/// indices whose remainder is its own number.
template <class T>
__global__ void __launch_bounds__(item_threads)
    max_pool_backward_kernel(int size, int outputs, const T* dy, const int* index, float* sums) {
  __shared__ int at[item_threads];
  const int thread = threadIdx.x;
  float* plane = sums + std::int64_t{blockIdx.x} * size;
  const std::int64_t first = std::int64_t{blockIdx.x} * outputs;
  for (int i = thread; i < size; i += item_threads) plane[i] = 0;
  for (int start = 0; start < outputs; start += item_threads) {
    const int loaded = min(item_threads, outputs - start);
    if (thread < loaded) at[thread] = index[first + start + thread];
    __syncthreads();  // indices have arrived
    for (int o = 0; o < loaded; ++o)
      if (at[o] % item_threads == thread) plane[at[o]] += to_float(dy[first + start + o]);
    __syncthreads();  // all threads have read them
  }
}

}  // namespace

void CudaBackend::max_pool2d(In x, Window window, Out y, Out index) {
  dispatch(x, [&]<class T>() {
    run_each<max_of_window<T>>(y.numel(), SlidingPlanes(x, y, window), x, y, index);
  });
}

void CudaBackend::average_pool2d(In x, Window window, Out y) {
  dispatch(x, [&]<class T>() {
    run_each<average_of_window<T>>(y.numel(), SlidingPlanes(x, y, window), x, y);
  });
}

void CudaBackend::average_pool2d_backward(In dy, Window window, Out dx) {
  dispatch(dx, [&]<class T>() {
    run_each<shares_of_windows<T>>(dx.numel(), SlidingPlanes(dx, dy, window), dy, dx);
  });
}

void CudaBackend::max_pool2d_backward(In dy, In index, Out dx) {
  const bool exact = dx.dtype() == DType::f32;
  const Tensor sums = exact ? dx : workspace(dx.shape(), DType::f32, dx.device());
  dispatch(dx, [&]<class T>() {
    run(max_pool_backward_kernel<T>, {static_cast<unsigned>(dx.size(0) * dx.size(1)), item_threads},
        dx.size(2) * dx.size(3), dy.size(2) * dy.size(3), dy, index, sums);
  });
  if (!exact) copy(sums, dx);
}

}  // namespace plangrad::cuda
