// Sums and maxima over a tensor's dimensions. Each thread or warp reduces a part of fixed length,
// and further launches reduce what the parts have left, so that sums do not depend on the GPU.
// Not here: what kernels sum on their way. Chapter 03.
#include <cmath>

#include "cuda/backend/broadcast.h"
#include "cuda/backend/kernel_types.h"

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

/// Keeps NaN, which warp_max does not.
struct Max {
  static __device__ float start() { return -INFINITY; }
  static __device__ float combine(float a, float b) { return a != a || a > b ? a : b; }
  static __device__ float across_warp(float x) {
    const float top = warp_max(x);
    return __any_sync(~0u, x != x) ? NAN : top;
  }
};

constexpr int short_row = 16;  // a warp would be idle for the most part

/// A warp for each result, where what is reduced stands side by side: inner is 1.
template <int N, class Op, class T, class U>
__global__ void __launch_bounds__(item_threads) reduce_rows_kernel(Runs runs, const T* x, U* y) {
  const std::int64_t result = std::int64_t{blockIdx.x} * (item_threads / 32) + threadIdx.x / 32;
  if (result >= runs.outer * runs.parts()) return;  // all of the warp
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

/// A thread for each result: neighbours read neighbours.
template <class Op, class T, class U>
__global__ void __launch_bounds__(item_threads) reduce_columns_kernel(Runs runs, const T* x, U* y) {
  const std::int64_t result = item_number();
  if (result >= runs.outer * runs.parts() * runs.inner) return;
  const std::int64_t i = result % runs.inner, k = result / runs.inner % runs.parts();
  const std::int64_t o = result / runs.inner / runs.parts();
  const std::int64_t end = min((k + 1) * runs.part, runs.reduced);
  float value = Op::start();
  for (std::int64_t r = k * runs.part; r < end; ++r)
    value = Op::combine(value, to_float(x[(o * runs.reduced + r) * runs.inner + i]));
  y[result] = from_float<U>(value);
}

template <class Op>
void run_reduce(const CudaBackend& backend, Runs runs, const Tensor& x, const Tensor& y) {
  dispatch(x, [&]<class T>() {
    dispatch(y, [&]<class U>() {
      const bool rows = runs.inner == 1 && runs.reduced > short_row;
      const std::int64_t results = runs.outer * runs.parts() * runs.inner;
      auto* by_warps = packs_fit<T>(runs.reduced, x) ? reduce_rows_kernel<pack_size<T>, Op, T, U>
                                                     : reduce_rows_kernel<1, Op, T, U>;
      backend.run(rows ? by_warps : reduce_columns_kernel<Op, T, U>,
                  dim3(blocks_for(results, rows ? item_threads / 32 : item_threads)),
                  dim3(item_threads), runs, x, y);
    });
  });
}

}  // namespace

void CudaBackend::reduce(Reduction op, In x, Out y) {
  const autograd::ReducedRun run(x.shape(), y.shape());  // earlier runs take another pass
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

/// mark = 1 where x is its maximum, else 0.
template <class T>
__global__ void __launch_bounds__(item_threads)
    mark_maxima_kernel(std::int64_t count, Walk walk, const T* x, const T* y, T* mark) {
  const std::int64_t i = item_number();
  if (i >= count) return;
  const std::int64_t in_y = walk.place(i).b;
  mark[i] = from_float<T>(to_float(x[i]) == to_float(y[in_y]) ? 1 : 0);
}

/// Shares dy among the marked elements, in place.
template <class T>
__global__ void __launch_bounds__(item_threads)
    share_kernel(std::int64_t count, Walk walk, const float* marks, const T* dy, T* dx) {
  const std::int64_t i = item_number();
  if (i >= count) return;
  const std::int64_t in_y = walk.place(i).b;
  dx[i] = from_float<T>(to_float(dx[i]) / marks[in_y] * to_float(dy[in_y]));
}

}  // namespace

void CudaBackend::max_backward(In x, In y, In dy, Out dx) {
  const Tensor marks = workspace(y.shape(), DType::f32, x.device());
  const Walk walk = make_walk(x, y, x);
  dispatch(x, [&]<class T>() {
    run_each(mark_maxima_kernel<T>, x.numel(), walk, x, y, dx);
    reduce(Reduction::sum, dx, marks);
    run_each(share_kernel<T>, x.numel(), walk, marks, dy, dx);
  });
}

}  // namespace paragrad::cuda
