// Sums and maxima over a tensor's dimensions, and sums of the squares of many tensors. Each thread,
// warp or block reduces a part of fixed length, and further launches reduce the results of parts,
// so that sums depend neither on the GPU nor on other tensors.
// Not here: sums that other kernels compute while they work; clipping by the norm
// (nn/optimizers/optimizer.h). Chapters 02, 03 and 05.
#include "cuda/backend/map.h"

namespace plangrad::cuda {
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

/// Has one thread per result, for few neighbours.
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

constexpr std::int64_t column_warps = 32;  // at most

/// Has one block for 32 N neighbouring results: its warps take rows in turn, and their results are
/// combined in order.
template <int N, class Op, class T, class U>
__global__ void __launch_bounds__(32 * column_warps)
    reduce_columns_kernel(Runs runs, const T* __restrict__ x, U* __restrict__ y) {
  const std::int64_t column_blocks = (runs.inner + 32 * N - 1) / (32 * N);
  const std::int64_t outer_and_part = blockIdx.x / column_blocks;
  const std::int64_t o = outer_and_part / runs.parts(), k = outer_and_part % runs.parts();
  const std::int64_t first = blockIdx.x % column_blocks * 32 * N, mine = first + threadIdx.x * N;
  const std::int64_t end = min((k + 1) * runs.part, runs.reduced);
  float value[N];
  for (float& v : value) v = Op::start();
  if (mine < runs.inner)
    for (std::int64_t r = k * runs.part + threadIdx.y; r < end; r += blockDim.y) {
      const auto p = load<Pack<T, N>>(x + (o * runs.reduced + r) * runs.inner + mine);
      for (int j = 0; j < N; ++j) value[j] = Op::combine(value[j], to_float(p.at[j]));
    }
  for_columns_of_warps<column_warps>(value, Op::combine, [&](int c, float result) {
    if (first + c < runs.inner) y[outer_and_part * runs.inner + first + c] = from_float<U>(result);
  });
}

constexpr int short_row = 16;               // most lanes of a warp would be idle
constexpr int few_columns = 16;             // likewise
constexpr std::int64_t most_narrow = 8192;  // results: packs would leave them to too few blocks

/// The elements of a part. Many rows are divided into 128 parts, for as many blocks per 32 packs of
/// columns; their results are one part.
std::int64_t part_of(const Runs& runs) {
  if (runs.inner == 1) return 1024;
  if (runs.inner <= few_columns) return 64;
  return runs.reduced <= 512 ? 512 : std::max<std::int64_t>(128, blocks_for(runs.reduced, 128));
}

template <class Op>
void run_reduce(const CudaBackend& backend, Runs runs, const Tensor& x, const Tensor& y) {
  const std::int64_t rows = runs.outer * runs.parts(), results = rows * runs.inner;
  const std::int64_t neighbours = runs.inner > few_columns ? runs.inner : runs.reduced;
  const auto warps = static_cast<unsigned>(
      std::clamp<std::int64_t>(std::min(runs.part, runs.reduced), 1, column_warps));
  dispatch_packs(neighbours, {x}, [&]<class T, int N>() {
    auto run_columns = [&](auto kernel, int n) {
      const auto blocks = static_cast<unsigned>(rows * blocks_for(runs.inner, 32 * n));
      backend.run(kernel, {blocks, {32, warps}}, runs, x, y);
    };
    dispatch(y, [&]<class U>() {
      if (runs.inner > few_columns && results > most_narrow)
        run_columns(reduce_columns_kernel<N, Op, T, U>, N);
      else if (runs.inner > few_columns)
        run_columns(reduce_columns_kernel<1, Op, T, U>, 1);
      else if (runs.inner == 1 && runs.reduced > short_row)
        backend.run_each<reduce_row<N, Op, T, U>, 32>(results, runs, x, y);
      else
        backend.run_each<reduce_column<Op, T, U>>(results, runs, x, y);
    });
  });
}

}  // namespace

void CudaBackend::reduce(Reduction op, In x, Out y) {
  const ReducedRun run(x.shape(), y.shape());  // earlier runs need another pass
  Runs runs{run.outer, run.reduced, run.inner, 0};
  runs.part = part_of(runs);

  Shape shape = x.shape();
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

constexpr int square_threads = 256, square_pack = 4, square_part = 8 * square_pack * square_threads;

/// The elements of a tensor, whose type is f32 or bf16.
struct Elements {
  const void* data;
  std::int64_t count : 63;
  bool narrow : 1;
};

__host__ __device__ unsigned parts_of(const Elements& x) {
  return blocks_for(x.count, square_part);
}

/// This thread's share of a part. It takes 4 neighbours at a time, loaded at once or not, so that
/// the order of additions does not depend on the address of x.
template <class T>
__device__ double share_of_part(const T* x, std::int64_t count) {
  const bool packed = aligned<square_pack>(x);
  double sum = 0;
  PG_UNROLL
  for (int i = threadIdx.x * square_pack; i < square_part; i += square_threads * square_pack) {
    const int here = min(std::int64_t{square_pack}, max(count - i, std::int64_t{0}));
    Pack<T, square_pack> four{};
    if (packed && here == square_pack)
      four = load<Pack<T, square_pack>>(x + i);
    else
      for (int j = 0; j < here; ++j) four.at[j] = x[i + j];
    for (int j = 0; j < square_pack; ++j) {
      const double value = to_float(four.at[j]);  // zeros past the end
      sum += value * value;
    }
  }
  return sum;
}

/// sums[block]: the sum of squares of a part.
__global__ void __launch_bounds__(square_threads)
    sum_squares_kernel(const __grid_constant__ SegmentTable<Elements> table, double* sums) {
  const int found = table.segment_of(blockIdx.x);
  const Elements& x = table.at[found];
  const std::int64_t start = std::int64_t{blockIdx.x - table.first_block[found]} * square_part;
  const double sum =
      x.narrow ? share_of_part(static_cast<const __nv_bfloat16*>(x.data) + start, x.count - start)
               : share_of_part(static_cast<const float*>(x.data) + start, x.count - start);
  const double total = block_sum(sum);
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
}

/// totals[block]: the sum of a tensor's parts.
__global__ void __launch_bounds__(square_threads)
    add_parts_kernel(const __grid_constant__ SegmentTable<Elements> table, const double* sums,
                     double* totals) {
  const unsigned first = table.first_block[blockIdx.x];
  const unsigned end = first + parts_of(table.at[blockIdx.x]);
  double sum = 0;
  for (unsigned i = first + threadIdx.x; i < end; i += square_threads) sum += sums[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) totals[blockIdx.x] = sum;
}

}  // namespace

/// Stores the tensors' sums, then the parts of the tensors of a table.
std::vector<double> CudaBackend::sums_of_squares(const std::vector<Tensor>& tensors) {
  std::vector<double> result(tensors.size());
  if (tensors.empty()) return result;
  std::vector<Elements> all;
  std::int64_t parts = 0;
  for (const Tensor& x : tensors) {
    dispatch(x, [&]<class T>() { all.push_back({x.data<T>(), x.numel(), sizeof(T) == 2}); });
    parts += parts_of(all.back());
  }
  const std::int64_t count = static_cast<std::int64_t>(tensors.size());
  const Tensor sums = workspace({count + parts}, DType::f64, tensors[0].device());
  double *totals = sums.data<double>(), *next = totals;
  for_tables(all, parts_of, [&](const SegmentTable<Elements>& table) {
    run(sum_squares_kernel, {table.blocks, square_threads}, table, totals + count);
    run(add_parts_kernel, {static_cast<unsigned>(table.count), square_threads}, table,
        totals + count, next);
    next += table.count;
  });
  read(totals, result.data(), count * sizeof(double));
  return result;
}

}  // namespace plangrad::cuda
