// Numbers for whole tensors: constants, random ones, and copies in another type.
// Not here: moving elements to other places (layout.cu).
// Chapter 02, random numbers.
#include "cuda/backend/map.h"

namespace paragrad::cuda {

namespace {

struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};
struct Same {
  __device__ float operator()(float x) const { return x; }
};

// Computed in f64 as on the CPU, so that both draw the same numbers.
struct Uniform {
  RandomKey key;
  double low, width;
  __device__ double operator()(std::int64_t i) const {
    return low + width * autograd::uniform(key, i);
  }
};
struct Normal {
  RandomKey key;
  double mean, deviation;
  __device__ double operator()(std::int64_t i) const {
    return mean + deviation * autograd::normal(key, i);
  }
};

template <class T, class Draw>
__global__ void __launch_bounds__(item_threads) draw_kernel(std::int64_t count, Draw draw, T* y) {
  const std::int64_t i = item_number();
  if (i < count) y[i] = from_float<T>(static_cast<float>(draw(i)));
}

template <class Draw>
void run_draw(const CudaBackend& backend, const Tensor& y, Draw draw) {
  dispatch(y, [&]<class T>() { backend.run_each(draw_kernel<T, Draw>, y.numel(), draw, y); });
}

}  // namespace

void CudaBackend::fill(double value, Out y) {
  refuse_f64(y);
  use();
  if (value == 0) return PG_CUDA(cudaMemsetAsync(y.raw(), 0, y.bytes(), queue()));
  dispatch(y, [&]<class T>() { map<T>(*this, y, Constant{static_cast<float>(value)}); });
}

void CudaBackend::fill_normal(RandomKey key, double mean, double deviation, Out y) {
  run_draw(*this, y, Normal{key, mean, deviation});
}

void CudaBackend::fill_uniform(RandomKey key, double low, double high, Out y) {
  run_draw(*this, y, Uniform{key, low, high - low});
}

void CudaBackend::copy(In x, Out y) {
  refuse_f64(x);
  use();
  if (x.dtype() == y.dtype())
    return PG_CUDA(cudaMemcpyAsync(y.raw(), x.raw(), x.bytes(), cudaMemcpyDeviceToDevice, queue()));
  dispatch(x, [&]<class From>() {
    dispatch(y, [&]<class To>() { map<To>(*this, y, Same{}, x.data<From>()); });
  });
}

}  // namespace paragrad::cuda
