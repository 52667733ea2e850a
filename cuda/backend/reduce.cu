// Sums and maxima over a tensor's dimensions, and sums of squares. Each thread, warp or block
// reduces a part of fixed length, and further launches reduce the results of parts, so that sums do
// not depend on the GPU.
// Not here: sums that other kernels compute while they work. Chapter 03.
#include <cmath>

#include "cuda/backend/map.h"
#include "cuda/launch/block_sums.h"

namespace paragrad::cuda {

namespace {

/// y[o,k,i] = op over r of x[o,r,i], with r in [k part, (k + 1) part).
struct Runs {
  std::int64_t outer, reduced, inner, part;

  __host__ __device__ std::int64_t parts() const {
    return reduced <= part ? 1 : (reduced + part - 1) / part;
  }
};

struct Sum {
  static __device__ float start() { return 0; }
  static __device__ float combine(float a, float b) { return a + b; }
  static __device__ float across_warp(float x) { return warp_sum(x); }
};

/// The maximum that keeps NaN, unlike warp_max.
struct Max {
  static __device__ float start() { return -INFINITY; }
  static __device__ float combine(float a, float b) { return a != a || a > b ? a : b; }
  static __device__ float across_warp(float x) {
    const float top = warp_max(x);
    return __any_sync(~0u, x != x) ? NAN : top;
  }
};

/// Has one warp per result, for reduced elements that are neighbours: inner is 1.
template <int N, class Op, class T, class U>
__device__ void reduce_row(std::int64_t result, Runs runs, const T* x, U* y) {
  const std::int64_t first = result % runs.parts() * runs.part;
  const std::int64_t end = min(first + runs.part, runs.reduced);
  const T* row = x + result / runs.parts() * runs.reduced;
  float value = Op::start();
  for (std::int64_t r = first + threadIdx.x % 32 * N; r < end; r += 32 * N) {
    const auto p = load<Pack<T, N>>(row + r);
    for (int j = 0; j < N; ++j) value = Op::combine(value, to_float(p.at[j]));
  }
  value = Op::across_warp(value);
  if (threadIdx.x % 32 == 0) y[result] = from_float<U>(value);
}

/// Has one thread per result: neighbouring threads read neighbouring elements.
template <class Op, class T, class U>
__device__ void reduce_column(std::int64_t result, Runs runs, const T* x, U* y) {
  const std::int64_t i = result % runs.inner, k = result / runs.inner % runs.parts();
  const std::int64_t o = result / runs.inner / runs.parts();
  const std::int64_t end = min((k + 1) * runs.part, runs.reduced);
  float value = Op::start();
  for (std::int64_t r = k * runs.part; r < end; ++r)
    value = Op::combine(value, to_float(x[(o * runs.reduced + r) * runs.inner + i]));
  y[result] = from_float<U>(value);
}

constexpr int short_row = 16;  // most lanes of a warp would be idle

template <class Op>
void run_reduce(const CudaBackend& backend, Runs runs, const Tensor& x, const Tensor& y) {
  const std::int64_t results = runs.outer * runs.parts() * runs.inner;
  dispatch_packs(runs.reduced, {x}, [&]<class T, int N>() {
    dispatch(y, [&]<class U>() {
      if (runs.inner == 1 && runs.reduced > short_row)
        backend.run_each<reduce_row<N, Op, T, U>, 32>(results, runs, x, y);
      else
        backend.run_each<reduce_column<Op, T, U>>(results, runs, x, y);
    });
  });
}

}  // namespace

void CudaBackend::reduce(Reduction op, In x, Out y) {
  const autograd::ReducedRun run(x.shape(), y.shape());  // earlier runs need another pass
  Runs runs{run.outer, run.reduced, run.inner, 0};
  runs.part = runs.inner == 1 ? 1024 : 64;

  autograd::Shape shape = x.shape();
  for (int i = run.first; i < run.last; ++i) shape = shape.with(i, 1);
  if (runs.parts() > 1) shape = shape.with(run.first, runs.parts());
  const bool done = shape == y.shape();
  const Tensor target = done ? y : workspace(shape, statistic_dtype(x.dtype()), x.device());
  if (op == Reduction::sum)
    run_reduce<Sum>(*this, runs, x, target);
  else
    run_reduce<Max>(*this, runs, x, target);
  if (!done) reduce(op, target, y);
}

namespace {

/// mark = 1 where x is the maximum, else 0.
template <class T>
__device__ void mark_maximum(std::int64_t i, const Walk& walk, const T* x, const T* y, T* mark) {
  mark[i] = from_float<T>(to_float(x[i]) == to_float(y[walk.place(i).b]) ? 1 : 0);
}

/// Divides dy among the marked elements, in place.
template <class T>
__device__ void share_among_marked(std::int64_t i, const Walk& walk, const float* marks,
                                   const T* dy, T* dx) {
  const std::int64_t in_y = walk.place(i).b;
  dx[i] = from_float<T>(to_float(dx[i]) / marks[in_y] * to_float(dy[in_y]));
}

}  // namespace

void CudaBackend::max_backward(In x, In y, In dy, Out dx) {
  const Tensor marks = workspace(y.shape(), DType::f32, x.device());
  const Walk walk(x, y, x);
  dispatch(x, [&]<class T>() {
    run_each<mark_maximum<T>>(x.numel(), walk, x, y, dx);
    reduce(Reduction::sum, dx, marks);
    run_each<share_among_marked<T>>(x.numel(), walk, marks, dy, dx);
  });
}

namespace {

constexpr int threads = 256, neighbours = 4, part = 8 * neighbours * threads;

/// Sums squares in parts. A thread takes 4 neighbours at a time, loaded at once or not, so that the
/// order of additions does not depend on the address of x.
template <int N, class T>
__global__ void __launch_bounds__(threads)
    sum_of_squares_kernel(std::int64_t count, const T* x, double* sums) {
  const std::int64_t start = std::int64_t{blockIdx.x} * part;
  double sum = 0;
  for (int i = threadIdx.x * neighbours; i < part && start + i < count; i += threads * neighbours) {
    const int here = min(std::int64_t{neighbours}, count - start - i);
    Pack<T, neighbours> four{};
    if (N == neighbours && here == neighbours)
      four = load<Pack<T, neighbours>>(x + start + i);
    else
      for (int j = 0; j < here; ++j) four.at[j] = x[start + i + j];
    for (int j = 0; j < here; ++j) {
      const double value = to_float(four.at[j]);
      sum += value * value;
    }
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = sum;
}

/// Sums the parts, in one block.
__global__ void __launch_bounds__(threads) sum_kernel(int count, const double* x, double* total) {
  double sum = 0;
  for (int i = threadIdx.x; i < count; i += threads) sum += x[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace

double CudaBackend::sum_of_squares(In x) { return sums_of_squares({x})[0]; }

/// Stores the parts of all tensors one after the other, then their sums.
std::vector<double> CudaBackend::sums_of_squares(const std::vector<Tensor>& tensors) {
  std::vector<double> result(tensors.size());
  if (tensors.empty()) return result;
  std::int64_t parts = 0;
  for (const Tensor& x : tensors) parts += blocks_for(x.numel(), part);
  const std::int64_t count = static_cast<std::int64_t>(tensors.size());
  const Tensor sums = workspace({parts + count}, DType::f64, tensors[0].device());
  double *next = sums.data<double>(), *totals = next + parts, *total = totals;
  for (const Tensor& x : tensors) {
    const unsigned blocks = blocks_for(x.numel(), part);
    dispatch(x, [&]<class T>() {
      const bool packed = aligned<neighbours>(x.data<T>());
      run(packed ? sum_of_squares_kernel<neighbours, T> : sum_of_squares_kernel<1, T>,
          {blocks, threads}, x.numel(), x, next);
    });
    run(sum_kernel, {1, threads}, blocks, next, total);
    next += blocks;
    ++total;
  }
  read(totals, result.data(), count * sizeof(double));
  return result;
}

}  // namespace paragrad::cuda
