// Functions of two tensors, which are stretched where their sizes are 1.
// Not here: how places are found (autograd/walk.h).
// Chapter 01, broadcasting.
#include "cuda/backend/broadcast.h"
#include "cuda/backend/map.h"

namespace paragrad::cuda {

namespace {

struct Add {
  __device__ float operator()(float a, float b) const { return a + b; }
};
struct Subtract {
  __device__ float operator()(float a, float b) const { return a - b; }
};
struct Multiply {
  __device__ float operator()(float a, float b) const { return a * b; }
};
struct Divide {
  __device__ float operator()(float a, float b) const { return a / b; }
};

template <class F, class T>
__global__ void __launch_bounds__(item_threads)
    broadcast_kernel(std::int64_t count, Walk walk, F f, const T* a, const T* b, T* y) {
  const std::int64_t i = item_number();
  if (i >= count) return;
  const WalkPlace at = walk.place(i);
  y[i] = from_float<T>(f(to_float(a[at.a]), to_float(b[at.b])));
}

template <class T, class F>
void combine(const CudaBackend& backend, const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  const T *in_a = a.data<T>(), *in_b = b.data<T>();
  if (a.shape() == b.shape()) return map<T>(backend, y, f, in_a, in_b);
  backend.run_each(broadcast_kernel<F, T>, y.numel(), make_walk(a, b, y), f, in_a, in_b, y);
}

}  // namespace

void CudaBackend::binary(Binary op, In a, In b, Out y) {
  dispatch(y, [&]<class T>() {
    switch (op) {
      case Binary::add: return combine<T>(*this, a, b, y, Add{});
      case Binary::subtract: return combine<T>(*this, a, b, y, Subtract{});
      case Binary::multiply: return combine<T>(*this, a, b, y, Multiply{});
      case Binary::divide: return combine<T>(*this, a, b, y, Divide{});
    }
  });
}

// y may be wider than x.
void CudaBackend::accumulate(In x, Out y) {
  dispatch(x, [&]<class From>() {
    dispatch(y, [&]<class To>() {
      map<To>(*this, y, Add{}, x.data<From>(), static_cast<const To*>(y.data<To>()));
    });
  });
}

}  // namespace paragrad::cuda
