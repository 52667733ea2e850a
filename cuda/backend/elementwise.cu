// Element-wise kernels: constants, random numbers, copies; functions of one and of two tensors, and
// their gradients. Functions of two broadcast their inputs; GELU adds a bias to rows first.
// Not here: elements at other places (indexed.cu).
// Chapters 01, broadcasting, 02, random numbers, and 03.
#include <functional>

#include "autograd/formulas.h"
#include "cuda/backend/map.h"

namespace paragrad::cuda {

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
__device__ void drop(std::int64_t block, std::int64_t count, float p, float scale, RandomKey key,
                     bool packed, const T* x, T* y) {
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

template <class F, class T>
__device__ void combine_stretched(std::int64_t i, const Walk& walk, F f, const T* a, const T* b,
                                  T* y) {
  const WalkPlace at = walk.place(i);
  y[i] = from_float<T>(f(to_float(a[at.a]), to_float(b[at.b])));
}

template <class T, class F>
void combine(const CudaBackend& backend, const Tensor& a, const Tensor& b, const Tensor& y, F f) {
  const T *in_a = a.data<T>(), *in_b = b.data<T>();
  if (a.shape() == b.shape()) return map<T>(backend, y, f, in_a, in_b);
  backend.run_each<combine_stretched<F, T>>(y.numel(), Walk(a, b, y), f, in_a, in_b, y);
}

constexpr int bias_threads = 128;
constexpr int block_rows = 16;  // fewer rows give more blocks; more rows give fewer partial sums

/// The N columns of a thread, and the rows of its block.
template <int N>
struct Part {
  std::int64_t column, first_row, end_row;

  __device__ explicit Part(std::int64_t rows)
      : column((std::int64_t{blockIdx.y} * bias_threads + threadIdx.x) * N),
        first_row(std::int64_t{blockIdx.x} * block_rows),
        end_row(min(first_row + block_rows, rows)) {}
};

template <int N, class T>
__global__ void __launch_bounds__(bias_threads)
    bias_gelu_kernel(std::int64_t rows, std::int64_t width, const T* x, const T* bias, T* y) {
  const Part<N> part(rows);
  if (part.column >= width) return;
  const auto b = load<Pack<T, N>>(bias + part.column);
  for (std::int64_t r = part.first_row; r < part.end_row; ++r) {
    const auto value = load<Pack<T, N>>(x + r * width + part.column);
    store(y + r * width + part.column, pack<T, N>([&](int j) {
            return autograd::gelu<Math>(to_float(value.at[j]) + to_float(b.at[j]));
          }));
  }
}

/// sums[block]: dx summed over the block's rows.
template <int N, class T>
__global__ void __launch_bounds__(bias_threads)
    bias_gelu_backward_kernel(std::int64_t rows, std::int64_t width, const T* x, const T* bias,
                              const T* dy, T* dx, float* sums) {
  const Part<N> part(rows);
  if (part.column >= width) return;
  const auto b = load<Pack<T, N>>(bias + part.column);
  float sum[N] = {};
  for (std::int64_t r = part.first_row; r < part.end_row; ++r) {
    const auto value = load<Pack<T, N>>(x + r * width + part.column);
    const auto d = load<Pack<T, N>>(dy + r * width + part.column);
    store(dx + r * width + part.column, pack<T, N>([&](int j) {
            const float slope =
                autograd::gelu_slope<Math>(to_float(value.at[j]) + to_float(b.at[j]));
            const float product = to_float(d.at[j]) * slope;
            sum[j] += product;
            return product;
          }));
  }
  for (int j = 0; j < N; ++j) sums[blockIdx.x * width + part.column + j] = sum[j];
}

Grid grid_for(std::int64_t rows, std::int64_t width, int columns) {
  return {{blocks_for(rows, block_rows), blocks_for(width, columns * bias_threads)}, bias_threads};
}

}  // namespace

void CudaBackend::fill(double value, Out y) {
  refuse_f64(y);
  use();
  if (value == 0) return PG_CUDA(cudaMemsetAsync(y.raw(), 0, y.bytes(), queue()));
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
  if (x.dtype() == y.dtype())
    return PG_CUDA(cudaMemcpyAsync(y.raw(), x.raw(), x.bytes(), cudaMemcpyDeviceToDevice, queue()));
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

void CudaBackend::bias_gelu(In x, In bias, Out y) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  dispatch_packs(width, {x, bias, y}, [&]<class T, int N>() {
    run(bias_gelu_kernel<N, T>, grid_for(rows, width, N), rows, width, x, bias, y);
  });
}

void CudaBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  const Tensor sums = workspace({blocks_for(rows, block_rows), width}, DType::f32, x.device());
  dispatch_packs(width, {x, bias, dy, dx}, [&]<class T, int N>() {
    run(bias_gelu_backward_kernel<N, T>, grid_for(rows, width, N), rows, width, x, bias, dy, dx,
        sums);
  });
  reduce(Reduction::sum, sums, dbias.window(0, {1, width}));
}

}  // namespace paragrad::cuda
