// Kernels on images. Pooling has one thread per result, and its gradient one block per plane. Batch
// norm's kernels that sum have one block per channel.
// Not here: convolution (convolution.cu); averages, which are convolutions or reductions
// (autograd/ops/image.cpp); and running statistics (autograd/ops.h). Chapter 02; Ioffe and Szegedy
// 2015.
#include "autograd/formulas.h"
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {
namespace {

template <class T>
__device__ void max_of_window(std::int64_t i, SlidingPlanes p, const T* x, T* y, int* index) {
  const int area = p.out_height * p.out_width;
  const T* plane = x + i / area * p.height * p.width;
  const int best =
      p.place_of_max(static_cast<int>(i % area), [=](int at) { return to_float(plane[at]); });
  y[i] = plane[best];
  index[i] = best;
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

void CudaBackend::max_pool2d_backward(In dy, In index, Out dx) {
  const bool exact = dx.dtype() == DType::f32;
  const Tensor sums = exact ? dx : workspace(dx.shape(), DType::f32, dx.device());
  dispatch(dx, [&]<class T>() {
    run(max_pool_backward_kernel<T>, {static_cast<unsigned>(dx.size(0) * dx.size(1)), item_threads},
        dx.size(2) * dx.size(3), dy.size(2) * dy.size(3), dy, index, sums);
  });
  if (!exact) copy(sums, dx);
}

namespace {

constexpr int channel_threads = 512;

/// The layout of x (N,C,H,W): plane (n,c) is a run of H * W values.
struct Planes {
  std::int64_t channels, size, count;  // count: number of values in a channel

  explicit Planes(const Tensor& x)
      : channels(x.size(1)), size(x.size(2) * x.size(3)), count(x.size(0) * size) {}

  /// Calls body(position) for this thread's values of the block's channel.
  template <class Body>
  __device__ void for_own(Body body) const {
    for (std::int64_t i = threadIdx.x; i < count; i += channel_threads)
      body((i / size * channels + blockIdx.x) * size + i % size);
  }
  /// Sums value(position) over the block's channel. The sums of threads are added in f64.
  template <class Value>
  __device__ double sum(Value value) const {
    float own = 0;
    for_own([&](std::int64_t at) { own += value(at); });
    return block_sum(static_cast<double>(own));
  }
};

/// Reads x twice: the sum of squares minus the square of the sum would cancel.
template <class T>
__global__ void __launch_bounds__(channel_threads)
    statistics_kernel(Planes p, const T* x, float* mean, float* variance) {
  const auto count = static_cast<double>(p.count);
  const double sum = p.sum([=](std::int64_t i) { return to_float(x[i]); });
  const auto m = static_cast<float>(sum / count);
  const double squares =
      p.sum([=](std::int64_t i) { return (to_float(x[i]) - m) * (to_float(x[i]) - m); });
  if (threadIdx.x != 0) return;
  mean[blockIdx.x] = m;
  variance[blockIdx.x] = static_cast<float>(squares / count);
}

template <class T>
__device__ void apply_one(std::int64_t i, Planes p, const T* x, const float* mean,
                          const float* variance, const T* weight, const T* bias, float epsilon,
                          T* y) {
  const std::int64_t c = i / p.size % p.channels;
  const float scale = to_float(weight[c]) / sqrtf(variance[c] + epsilon);
  y[i] = from_float<T>((to_float(x[i]) - mean[c]) * scale + to_float(bias[c]));
}

/// The gradients, with n the normalised x and means over a channel:
///   dx = weight inverse (dy - mean(dy) - n mean(dy n)),  dweight = sum dy n,  dbias = sum dy
template <class T>
__global__ void __launch_bounds__(channel_threads)
    backward_kernel(Planes p, const T* x, const float* mean, const float* variance, const T* weight,
                    float epsilon, const T* dy, T* dx, float* dweight, float* dbias) {
  const int c = blockIdx.x;
  const float m = mean[c], inverse = 1 / sqrtf(variance[c] + epsilon);
  const double along =
      p.sum([=](std::int64_t i) { return to_float(dy[i]) * (to_float(x[i]) - m); });
  const double sum = p.sum([=](std::int64_t i) { return to_float(dy[i]); });
  const auto count = static_cast<double>(p.count);
  const float scale = to_float(weight[c]) * inverse, mean_d = static_cast<float>(sum / count);
  const auto slope = static_cast<float>(along * inverse * inverse / count);
  p.for_own([=](std::int64_t i) {
    dx[i] = from_float<T>(scale * (to_float(dy[i]) - mean_d - (to_float(x[i]) - m) * slope));
  });
  if (threadIdx.x != 0) return;
  dweight[c] = static_cast<float>(along * inverse);
  dbias[c] = static_cast<float>(sum);
}

Grid block_for_channels(const Tensor& x) {
  return {static_cast<unsigned>(x.size(1)), channel_threads};
}

}  // namespace

void CudaBackend::batch_norm_statistics(In x, Out mean, Out variance) {
  dispatch(x, [&]<class T>() {
    run(statistics_kernel<T>, block_for_channels(x), Planes(x), x, mean, variance);
  });
}

void CudaBackend::batch_norm_apply(In x, In mean, In variance, In weight, In bias, double epsilon,
                                   Out y) {
  dispatch(x, [&]<class T>() {
    run_each<apply_one<T>>(x.numel(), Planes(x), x, mean, variance, weight, bias, epsilon, y);
  });
}

void CudaBackend::batch_norm_backward(In x, In mean, In variance, In weight, double epsilon, In dy,
                                      Out dx, Out dweight, Out dbias) {
  dispatch(x, [&]<class T>() {
    run(backward_kernel<T>, block_for_channels(x), Planes(x), x, mean, variance, weight, epsilon,
        dy, dx, dweight, dbias);
  });
}

}  // namespace plangrad::cuda
