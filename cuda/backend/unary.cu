// Functions of one tensor, element by element, and their gradients.
// Not here: functions of two (binary.cu), bias with GELU (bias_gelu.cu).
// Chapter 03.
#include "autograd/formulas.h"
#include "cuda/backend/map.h"

namespace paragrad::cuda {

namespace {

template <Unary op>
struct Value {
  __device__ float operator()(float x) const { return autograd::value_of<op, Math>(x); }
};
template <Unary op>
struct Gradient {
  __device__ float operator()(float x_or_y, float g) const {
    return autograd::gradient_of<op, Math>(x_or_y, g);
  }
};

struct Affine {
  float scale, shift;
  __device__ float operator()(float x) const { return scale * x + shift; }
};

/// A Philox block of four random words decides four elements, which one thread computes.
template <class T>
__global__ void __launch_bounds__(item_threads)
    dropout_kernel(std::int64_t count, float p, float scale, RandomKey key, bool packed, const T* x,
                   T* y) {
  const std::int64_t block = item_number();
  const auto word = autograd::philox(key, block);
  auto kept = [&](float value, int i) {
    return from_float<T>(autograd::to_uniform(word[i]) < p ? 0 : value * scale);
  };
  if (packed && 4 * block + 4 <= count) {
    auto four = load<Pack<T, 4>>(x + 4 * block);
    PG_UNROLL
    for (int i = 0; i < 4; ++i) four.at[i] = kept(to_float(four.at[i]), i);
    store(y + 4 * block, four);
  } else {
    for (int i = 0; i < 4 && 4 * block + i < count; ++i)
      y[4 * block + i] = kept(to_float(x[4 * block + i]), i);
  }
}

}  // namespace

void CudaBackend::unary(Unary op, In x, Out y) {
  dispatch(x, [&]<class T>() {
    autograd::dispatch(op, [&]<Unary f>() { map<T>(*this, y, Value<f>{}, x.data<T>()); });
  });
}

void CudaBackend::unary_backward(Unary op, In x, In y, In dy, Out dx) {
  dispatch(x, [&]<class T>() {
    autograd::dispatch(op, [&]<Unary f>() {
      const Tensor& read = autograd::reads_result(f) ? y : x;
      map<T>(*this, dx, Gradient<f>{}, read.data<T>(), dy.data<T>());
    });
  });
}

void CudaBackend::affine(In x, double scale, double shift, Out y) {
  const Affine f{static_cast<float>(scale), static_cast<float>(shift)};
  dispatch(x, [&]<class T>() { map<T>(*this, y, f, x.data<T>()); });
}

void CudaBackend::dropout(In x, double p, RandomKey key, Out y) {
  dispatch(x, [&]<class T>() {
    const T* in = x.data<T>();
    T* out = y.data<T>();
    run(dropout_kernel<T>, dim3(blocks_for(x.numel(), 4 * item_threads)), dim3(item_threads),
        x.numel(), static_cast<float>(p), static_cast<float>(1 / (1 - p)), key,
        aligned<4>(in) && aligned<4>(out), in, out);
  });
}

}  // namespace paragrad::cuda
