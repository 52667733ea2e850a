// Element-wise kernels: constants, random numbers, copies; functions of one and of two tensors, and
// their gradients. Functions of two broadcast their inputs. Last, GELU of rows to which a bias is
// added, and its gradient, in one pass each.
// Not here: elements at other places (indexed.cu), formulas that the CPU has, too (formulas.h).
// Chapters 01, broadcasting, 02, random numbers, and 03; Hendrycks and Gimpel 2016.
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
  __device__ float operator()(float x) const { return value_of<op, Math>(x); }
};
template <Unary op>
struct Gradient {
  __device__ float operator()(float x_or_y, float g) const {
    return gradient_of<op, Math>(x_or_y, g);
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
  const auto word = philox(key.get(), block);
  auto kept = [&](float value, int i) {
    return from_float<T>(to_uniform(word[i]) < p ? 0 : value * scale);
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
  dispatch(y, [&]<class T>() { run_each<draw<normal, T>>(y.numel(), key, mean, deviation, y); });
}

void CudaBackend::fill_uniform(RandomKey key, double low, double high, Out y) {
  dispatch(y, [&]<class T>() { run_each<draw<uniform, T>>(y.numel(), key, low, high - low, y); });
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
      const Tensor& read = reads_result(f) ? y : x;
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

namespace {

constexpr int threads = 128, rows_at_once = 4;

/// A thread has N columns of some rows, whose elements are all on their way before it computes.
template <int N, class T>
__global__ void __launch_bounds__(threads)
    bias_gelu_kernel(std::int64_t rows, std::int64_t width, const T* __restrict__ x,
                     const T* __restrict__ bias, T* __restrict__ y) {
  const std::int64_t column = (std::int64_t{blockIdx.y} * threads + threadIdx.x) * N;
  if (column >= width) return;
  const std::int64_t start = std::int64_t{blockIdx.x} * rows_at_once * width + column;
  const std::int64_t here = rows - std::int64_t{blockIdx.x} * rows_at_once;
  const auto b = load<Pack<T, N>>(bias + column);
  Pack<T, N> value[rows_at_once] = {};
  PG_UNROLL
  for (int r = 0; r < rows_at_once; ++r)
    if (r < here) value[r] = load<Pack<T, N>>(x + start + r * width);
  PG_UNROLL
  for (int r = 0; r < rows_at_once; ++r)
    if (r < here)
      store(y + start + r * width, pack<T, N>([&](int j) {
              return gelu<Math>(to_float(value[r].at[j]) + to_float(b.at[j]));
            }));
}

constexpr unsigned part_warps = 8;
constexpr std::int64_t fewest_rows = 8 * part_warps, most_parts = 128;

/// A block has 32 N columns of a part of the rows, which its warps take in turn. A thread's next
/// row is on its way while it computes. sums[part]: dx summed over the part's rows.
template <int N, class T>
__global__ void __launch_bounds__(32 * part_warps)
    bias_gelu_backward_kernel(std::int64_t rows, std::int64_t part, std::int64_t width,
                              const T* __restrict__ x, const T* __restrict__ bias,
                              const T* __restrict__ dy, T* __restrict__ dx,
                              float* __restrict__ sums) {
  const std::int64_t first = std::int64_t{blockIdx.y} * 32 * N, column = first + threadIdx.x * N;
  const std::int64_t end = min((std::int64_t{blockIdx.x} + 1) * part, rows);
  std::int64_t r = column < width ? blockIdx.x * part + threadIdx.y : end;
  Pack<T, N> b{}, next_value{}, next_d{};
  auto load_row = [&](std::int64_t row) {
    next_value = load<Pack<T, N>>(x + row * width + column);
    next_d = load<Pack<T, N>>(dy + row * width + column);
  };
  if (r < end) b = load<Pack<T, N>>(bias + column), load_row(r);
  float sum[N] = {};
  for (; r < end; r += part_warps) {
    const auto value = next_value, d = next_d;
    if (r + part_warps < end) load_row(r + part_warps);
    store(dx + r * width + column, pack<T, N>([&](int j) {
            const float slope = gelu_slope<Math>(to_float(value.at[j]) + to_float(b.at[j]));
            const float product = to_float(d.at[j]) * slope;
            sum[j] += product;
            return product;
          }));
  }
  for_columns_of_warps<part_warps>(sum, std::plus<float>(), [&](int c, float total) {
    if (first + c < width) sums[blockIdx.x * width + first + c] = total;
  });
}

}  // namespace

void CudaBackend::bias_gelu(In x, In bias, Out y) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  dispatch_packs(width, {x, bias, y}, [&]<class T, int N>() {
    const dim3 blocks(blocks_for(rows, rows_at_once), blocks_for(width, N * threads));
    run(bias_gelu_kernel<N, T>, {blocks, threads}, rows, width, x, bias, y);
  });
}

void CudaBackend::bias_gelu_backward(In x, In bias, In dy, Out dx, Out dbias) {
  const std::int64_t width = bias.numel(), rows = x.numel() / width;
  const std::int64_t part = std::max<std::int64_t>(fewest_rows, blocks_for(rows, most_parts));
  const unsigned parts = blocks_for(rows, part);
  const Tensor sums = workspace({parts, width}, DType::f32, x.device());
  dispatch_packs(width, {x, bias, dy, dx}, [&]<class T, int N>() {
    run(bias_gelu_backward_kernel<N, T>, {{parts, blocks_for(width, 32 * N)}, {32, part_warps}},
        rows, part, width, x, bias, dy, dx, sums);
  });
  reduce(Reduction::sum, sums, dbias.window(0, {1, width}));
}

}  // namespace plangrad::cuda
