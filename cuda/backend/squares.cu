// Sums of the squares of many tensors: one launch sums parts of fixed length, another adds the
// parts of each tensor, so that sums depend neither on the GPU nor on the other tensors.
// Not here: clipping by the norm (nn/optimizers/optimizer.h). Chapters 02 and 05.
#include "cuda/backend/kernel_types.h"
#include "cuda/backend/segments.h"
#include "cuda/launch/block_sums.h"

namespace plangrad::cuda {

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

double CudaBackend::sum_of_squares(In x) { return sums_of_squares({x})[0]; }

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
