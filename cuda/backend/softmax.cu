// Softmax, and softmax cross-entropy, with one block per row. Cross-entropy reads a row once, if it
// fits into shared memory, and writes the gradient over it.
// Not here: attention's softmax, which is never in memory as a whole; the mean over rows
// (autograd/ops/rows.cpp). Chapters 02 and 03; Bishop 2006, eq. 4.109.
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {
namespace {

/// Does the work of for_packs for a row of any width at any address: body(c, pack) gets single
/// elements before the first aligned address, and after the last whole pack.
template <int N, class T, class Body>
__device__ void for_any_packs(const T* row, std::int64_t width, Body body) {
  const auto past =
      static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(row) / sizeof(T) % N);
  const std::int64_t first = min((N - past) % N, width), last = width - (width - first) % N;
  if (threadIdx.x < first) body(std::int64_t{threadIdx.x}, load<Pack<T, 1>>(row + threadIdx.x));
  for_packs<N>(row + first, last - first,
               [&](std::int64_t c, const Pack<T, N>& p) { body(first + c, p); });
  const std::int64_t c = last + threadIdx.x;
  if (c < width) body(c, load<Pack<T, 1>>(row + c));
}

/// A row's maximum, and the sum of exp(x - maximum).
struct ExpSum {
  float top, sum;
};

/// exp(x) for x <= 0, by the function that GPUs have: a power of two.
__device__ inline float power(float x) { return fast_exp2(x * log2_e); }

/// Needs one pass: where a pack has a larger maximum, the sum so far is scaled down. NaN stays in
/// the sum.
/// source: Milakov and Gimelshein 2018, algorithm 3
template <int N, class T>
__device__ ExpSum exp_sum(const T* row, std::int64_t width) {
  float top = -3.402823466e38f, sum = 0;  // the lowest number, so that differences are not NaN
  for_any_packs<N>(row, width, [&]<int M>(std::int64_t, const Pack<T, M>& x) {
    const float before = top;
    for (int j = 0; j < M; ++j) top = max(top, to_float(x.at[j]));
    sum *= power(before - top);
    for (int j = 0; j < M; ++j) sum += power(to_float(x.at[j]) - top);
  });
  const float all = block_max(top);
  return {all, block_sum(sum * power(top - all))};
}

template <int N, class T>
__global__ void __launch_bounds__(most_row_threads)
    softmax_kernel(std::int64_t width, const T* x, T* y) {
  const T* row = x + blockIdx.x * width;
  const ExpSum exps = exp_sum<N>(row, width);
  const float scale = 1 / exps.sum;
  for_packs<N>(row, width, [&](std::int64_t c, const Pack<T, N>& p) {
    store(y + blockIdx.x * width + c,
          pack<T, N>([&](int j) { return power(to_float(p.at[j]) - exps.top) * scale; }));
  });
}

// dx = y (dy - sum_c y dy)
template <int N, class T>
__global__ void __launch_bounds__(most_row_threads)
    softmax_backward_kernel(std::int64_t width, const T* y, const T* dy, T* dx) {
  const std::int64_t start = blockIdx.x * width;
  float dot = 0;
  for_packs<N>(y + start, width, [&](std::int64_t c, const Pack<T, N>& p) {
    const auto d = load<Pack<T, N>>(dy + start + c);
    for (int j = 0; j < N; ++j) dot += to_float(p.at[j]) * to_float(d.at[j]);
  });
  dot = block_sum(dot);
  for_packs<N>(y + start, width, [&](std::int64_t c, const Pack<T, N>& p) {
    const auto d = load<Pack<T, N>>(dy + start + c);
    store(dx + start + c,
          pack<T, N>([&](int j) { return to_float(p.at[j]) * (to_float(d.at[j]) - dot); }));
  });
}

/// Copies a row to shared memory, for the whole block.
template <class T>
__device__ const T* in_shared(const T* row, std::int64_t width) {
  constexpr int n = pack_size<T>;
  T* copy = dynamic_shared<T>();
  for (std::int64_t c = threadIdx.x * n; c < width; c += blockDim.x * n)
    cp_async_16(copy + c, row + c);
  cp_async_commit();
  cp_async_wait<0>();
  __syncthreads();  // the row has arrived
  return copy;
}

/// Block r has row r, of `pitch` elements, which `copies` says to copy to shared memory first;
/// `dlogits` may be `logits`, or null.
template <int N, bool copies, class T>
__global__ void __launch_bounds__(most_row_threads)
    cross_entropy_kernel(std::int64_t classes, std::int64_t pitch, const T* logits,
                         const int* targets, float scale, float* loss, T* dlogits,
                         IndexFault* fault) {
  const T* row = logits + blockIdx.x * pitch;
  if constexpr (copies) row = in_shared(row, pitch);
  const int target = targets[blockIdx.x];
  const bool mine = threadIdx.x == 0 && inside(target, classes, IndexUse::cross_entropy, fault);
  const float chosen = mine ? to_float(row[target]) : 0;
  const ExpSum exps = exp_sum<N>(row, classes);
  if (mine) loss[blockIdx.x] = exps.top + logf(exps.sum) - chosen;
  if (!dlogits) return;

  __syncthreads();  // thread 0 has read its logit
  T* drow = dlogits + blockIdx.x * pitch;
  const float factor = scale / exps.sum;
  for_any_packs<N>(row, classes, [&]<int M>(std::int64_t c, const Pack<T, M>& x) {
    store(drow + c,
          pack<T, M>([&](int j) { return factor * power(to_float(x.at[j]) - exps.top); }));
  });
  for (std::int64_t c = classes + threadIdx.x; c < pitch; c += blockDim.x)
    drow[c] = from_float<T>(0);
  __syncthreads();
  if (mine) drow[target] = from_float<T>(factor * power(chosen - exps.top) - scale);
}

/// The longest row that is copied, in bytes: all GPUs since compute capability 8.0 have 99 KiB for
/// a block, of which some is for its sums.
constexpr std::int64_t most_copied = 98 * 1024 + 512;

}  // namespace

void CudaBackend::softmax(In x, Out y) {
  dispatch_packs(x.size(1), {x, y}, [&]<class T, int N>() {
    run(softmax_kernel<N, T>, block_for_rows(x), x.size(1), x, y);
  });
}

void CudaBackend::softmax_backward(In y, In dy, Out dx) {
  dispatch_packs(y.size(1), {y, dy, dx}, [&]<class T, int N>() {
    run(softmax_backward_kernel<N, T>, block_for_rows(y), y.size(1), y, dy, dx);
  });
}

void CudaBackend::cross_entropy(In logits, In targets, std::int64_t classes, double scale, Out loss,
                                Out dlogits) {
  const std::int64_t pitch = logits.size(1), bytes = pitch * size_of(logits.dtype());
  const bool words = address_of(logits.raw()) % 16 == 0 && bytes % 16 == 0;
  dispatch(logits, [&]<class T>() {
    T* to = dlogits.defined() ? dlogits.data<T>() : nullptr;
    constexpr int n = pack_size<T>;
    const bool packed = !to || (address_of(logits.raw()) - address_of(dlogits.raw())) % 16 == 0;
    const bool copies = to && packed && words && bytes <= most_copied;
    Grid grid = block_for_rows(logits);
    if (copies) grid.shared_bytes = bytes;
    run(copies   ? cross_entropy_kernel<n, true, T>
        : packed ? cross_entropy_kernel<n, false, T>
                 : cross_entropy_kernel<1, false, T>,
        grid, classes, pitch, logits, targets, scale, loss, to, fault_);
  });
}

}  // namespace plangrad::cuda
