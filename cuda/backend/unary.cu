// Functions of one tensor, element by element, and their gradients.
// Not here: functions of two (binary.cu), bias with GELU (bias_gelu.cu).
// Chapter 03.
#include "cuda/backend/gelu.h"
#include "cuda/backend/map.h"

namespace paragrad::cuda {

namespace {

struct Negate {
  __device__ float operator()(float x) const { return -x; }
};
struct Exp {
  __device__ float operator()(float x) const { return expf(x); }
};
struct Log {
  __device__ float operator()(float x) const { return logf(x); }
};
struct Sqrt {
  __device__ float operator()(float x) const { return sqrtf(x); }
};
struct Tanh {
  __device__ float operator()(float x) const { return tanhf(x); }
};
struct Relu {
  __device__ float operator()(float x) const { return x < 0 ? 0 : x; }
};
struct Gelu {
  __device__ float operator()(float x) const { return gelu(x); }
};

// Gradients, of the input x or the result y, and of the result's gradient g.
struct ExpBackward {
  __device__ float operator()(float y, float g) const { return g * y; }
};
struct LogBackward {
  __device__ float operator()(float x, float g) const { return g / x; }
};
struct SqrtBackward {
  __device__ float operator()(float y, float g) const { return g / (2 * y); }
};
struct TanhBackward {
  __device__ float operator()(float y, float g) const { return g * (1 - y * y); }
};
struct ReluBackward {
  __device__ float operator()(float x, float g) const { return x > 0 ? g : 0; }
};
struct GeluBackward {
  __device__ float operator()(float x, float g) const { return g * gelu_slope(x); }
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
    const T* in = x.data<T>();
    switch (op) {
      case Unary::negate: return map<T>(*this, y, Negate{}, in);
      case Unary::exp: return map<T>(*this, y, Exp{}, in);
      case Unary::log: return map<T>(*this, y, Log{}, in);
      case Unary::sqrt: return map<T>(*this, y, Sqrt{}, in);
      case Unary::tanh: return map<T>(*this, y, Tanh{}, in);
      case Unary::relu: return map<T>(*this, y, Relu{}, in);
      case Unary::gelu: return map<T>(*this, y, Gelu{}, in);
    }
  });
}

void CudaBackend::unary_backward(Unary op, In x, In y, In dy, Out dx) {
  dispatch(x, [&]<class T>() {
    const T *in = x.data<T>(), *out = y.data<T>(), *g = dy.data<T>();
    switch (op) {
      case Unary::negate: return map<T>(*this, dx, Negate{}, g);
      case Unary::exp: return map<T>(*this, dx, ExpBackward{}, out, g);
      case Unary::log: return map<T>(*this, dx, LogBackward{}, in, g);
      case Unary::sqrt: return map<T>(*this, dx, SqrtBackward{}, out, g);
      case Unary::tanh: return map<T>(*this, dx, TanhBackward{}, out, g);
      case Unary::relu: return map<T>(*this, dx, ReluBackward{}, in, g);
      case Unary::gelu: return map<T>(*this, dx, GeluBackward{}, in, g);
    }
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
