// Element-wise kernels: constants, random numbers, copies; functions of one and of two tensors, and
// their gradients. Functions of two broadcast their inputs.
// Not here: GELU of rows with a bias (bias_gelu.cu), elements at other places (indexed.cu).
// Chapters 01, broadcasting, 02, random numbers, and 03.
#include <functional>

#include "autograd/formulas.h"
#include "cuda/backend/map.h"

namespace plangrad::cuda {

namespace {

struct Constant {
  float value;
  __device__ float operator()() const { return value; }
};

/// A random number, computed in f64 as on the CPU, so that both draw the same numbers.
template <auto number, class T>
__device__ void draw(std::int64_t i, RandomKey key, double start, double scale, T* y) {
  y[i] = from_float<T>(static_cast<float>(start + scale * number(key, i)));
}

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

/// A Philox block of four random words decides four elements.
template <class T>
__device__ void drop(std::int64_t block, std::int64_t count, float p, float scale,
                     PerLaunch<RandomKey> key, bool packed, const T* x, T* y) {
  const auto word = autograd::philox(key.get(), block);
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

template <class F, class T>
__device__ void combine_stretched(std::int64_t i, const Walk& walk, F f, const T* a, const T* b,
                                  T* y) {
  const WalkPlace at = walk.place(i);
  y[i] = from_float<T>(f(to_float(a[at.a]), to_float(b[at.b])));
}

/// b is a row of `width` packs that is repeated.
template <int N, class F, class T>
__device__ void combine_row(std::int64_t i, std::int64_t width, F f, const T* a, const T* b, T* y) {
  store(y + i * N,
        apply<T, N>(f, load<Pack<T, N>>(a + i * N), load<Pack<T, N>>(b + i % width * N)));
}

template <class T, class F>
void combine(const CudaBackend& backend, const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  const T *in_a = a.data<T>(), *in_b = b.data<T>();
  if (a.shape() == b.shape()) return map<T>(backend, y, f, in_a, in_b);
  const Walk walk(a, b, y);
  if (walk.repeats_b()) {
    const std::int64_t width = walk.steps[1].size;
    constexpr int n = pack_size<T>;
    if (width % n == 0 && aligned<n>(in_a) && aligned<n>(in_b) && aligned<n>(y.data<T>()))
      return backend.run_each<combine_row<n, F, T>>(y.numel() / n, width / n, f, in_a, in_b, y);
    return backend.run_each<combine_row<1, F, T>>(y.numel(), width, f, in_a, in_b, y);
  }
  backend.run_each<combine_stretched<F, T>>(y.numel(), walk, f, in_a, in_b, y);
}

/// In a grid of any size, for a factor that is 1 nearly always: then its threads leave at once.
template <class T>
__global__ void __launch_bounds__(item_threads)
    scale_kernel(std::int64_t count, const float* factor, T* x) {
  const float f = *factor;
  if (f == 1) return;
  for (std::int64_t i = std::int64_t{blockIdx.x} * item_threads + threadIdx.x; i < count;
       i += std::int64_t{gridDim.x} * item_threads)
    x[i] = from_float<T>(f * to_float(x[i]));
}

}  // namespace

void CudaBackend::fill(double value, Out y) {
  refuse_f64(y);
  use();
  if (value == 0) return set_bytes(y.raw(), 0, y.bytes());
  dispatch(y, [&]<class T>() { map<T>(*this, y, Constant{static_cast<float>(value)}); });
}

void CudaBackend::fill_normal(RandomKey key, double mean, double deviation, Out y) {
  dispatch(y, [&]<class T>() {
    run_each<draw<autograd::normal, T>>(y.numel(), key, mean, deviation, y);
  });
}

void CudaBackend::fill_uniform(RandomKey key, double low, double high, Out y) {
  dispatch(y, [&]<class T>() {
    run_each<draw<autograd::uniform, T>>(y.numel(), key, low, high - low, y);
  });
}

void CudaBackend::copy(In x, Out y) {
  refuse_f64(x);
  use();
  if (x.dtype() == y.dtype()) {
    auto copy = [to = y.raw(), from = x.raw(), bytes = x.bytes()](cudaStream_t stream) {
      PG_CUDA(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
    };
    return queue(copy, y.raw(), x.raw(), x.bytes());
  }
  dispatch(x, [&]<class From>() {
    dispatch(y, [&]<class To>() { map<To>(*this, y, std::identity(), x.data<From>()); });
  });
}

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

void CudaBackend::scale_by(In factor, Out x) {
  const unsigned blocks = std::min(blocks_for(x.numel(), item_threads), 1024u);
  dispatch(x, [&]<class T>() {
    run(scale_kernel<T>, {blocks, item_threads}, x.numel(), factor, x);
  });
}

void CudaBackend::dropout(In x, double p, RandomKey key, Out y) {
  dispatch(x, [&]<class T>() {
    const bool packed = aligned<4>(x.data<T>()) && aligned<4>(y.data<T>());
    run_each<drop<T>>(blocks_for(x.numel(), 4), x.numel(), p, 1 / (1 - p), key, packed, x, y);
  });
}

void CudaBackend::binary(Binary op, In a, In b, Out y) {
  dispatch(y, [&]<class T>() {
    switch (op) {
      case Binary::add: return combine<T>(*this, a, b, y, std::plus<float>());
      case Binary::subtract: return combine<T>(*this, a, b, y, std::minus<float>());
      case Binary::multiply: return combine<T>(*this, a, b, y, std::multiplies<float>());
      case Binary::divide: return combine<T>(*this, a, b, y, std::divides<float>());
    }
  });
}

// The type of y may be wider than that of x.
void CudaBackend::accumulate(In x, Out y) {
  dispatch(x, [&]<class From>() {
    dispatch(y, [&]<class To>() {
      const To* sum = y.data<To>();
      map<To>(*this, y, std::plus<float>(), x.data<From>(), sum);
    });
  });
}

}  // namespace plangrad::cuda
