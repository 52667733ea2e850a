// Products with sparse matrices: a warp has a row of the sparse matrix; its lanes have neighbouring
// vectors, or neighbouring elements of the row.
// Not here: rows sorted by length. Gale et al. 2020, "Sparse GPU kernels for deep learning".
#include "cuda/backend/kernel_types.h"

namespace plangrad::cuda {
namespace {

/// A SparsePattern on the device; `source` may be null.
struct Pattern {
  std::int64_t rows;
  const int *offsets, *columns, *source;

  explicit Pattern(const SparsePattern& p)
      : rows(p.rows()),
        offsets(p.offsets.data<std::int32_t>()),
        columns(p.columns.data<std::int32_t>()),
        source(p.source.defined() ? p.source.data<std::int32_t>() : nullptr) {}
};

/// c (M,n) = a b + bias; each lane has a pack of N neighbours, and adds element after element.
template <int N, class T>
__device__ void multiply_row(std::int64_t warp, Pattern a, const T* values, std::int64_t n,
                             const T* b, const T* bias, T* c) {
  const std::int64_t parts = (n + 32 * N - 1) / (32 * N), row = warp / parts;
  const std::int64_t column = (warp % parts * 32 + threadIdx.x % 32) * N;
  if (column >= n) return;
  float sums[N];
  for (float& sum : sums) sum = bias ? to_float(bias[row]) : 0;
  for (int i = a.offsets[row]; i < a.offsets[row + 1]; ++i) {
    const float value = to_float(values[a.source ? a.source[i] : i]);
    const auto x = load<Pack<T, N>>(b + a.columns[i] * n + column);
    PG_UNROLL
    for (int j = 0; j < N; ++j) sums[j] += value * to_float(x.at[j]);
  }
  store(c + row * n + column, pack<T, N>([&](int j) { return sums[j]; }));
}

/// values[i] = sum_j d[j,r] b[j,k], with one lane per element.                d (n,M), b (n,K)
template <class T>
__device__ void sample_rows(std::int64_t row, Pattern p, std::int64_t n, std::int64_t width,
                            const T* d, const T* b, float* values) {
  for (int i = p.offsets[row] + threadIdx.x % 32; i < p.offsets[row + 1]; i += 32) {
    float sum = 0;
    for (std::int64_t j = 0; j < n; ++j)
      sum += to_float(d[j * p.rows + row]) * to_float(b[j * width + p.columns[i]]);
    values[i] = sum;
  }
}

}  // namespace

// Transposes vectors, and the results back: lanes that read and write neighbours save more time
// than the copies cost.
void CudaBackend::spmm(const SparsePattern& pattern, In values, In b, In bias, Out c) {
  refuse_f64(b);
  if (c.numel() == 0) return;
  const std::int64_t n = c.size(0);
  const Tensor turned = workspace({b.size(1), n}, b.dtype(), b.device());
  const Tensor product = workspace({c.size(1), n}, c.dtype(), c.device());
  permute(b, {1, 0}, turned);
  dispatch_packs(n, {turned, product}, [&]<class T, int N>() {
    run_each<multiply_row<N, T>, 32>(pattern.rows() * blocks_for(n, 32 * N), Pattern(pattern),
                                     values, n, turned, bias.defined() ? bias.data<T>() : nullptr,
                                     product);
  });
  permute(product, {1, 0}, c);
}

void CudaBackend::sddmm(const SparsePattern& pattern, In d, In b, Out values) {
  const Pattern p(pattern);
  dispatch(d, [&]<class T>() {
    run_each<sample_rows<T>, 32>(p.rows, p, d.size(0), pattern.width, d, b, values);
  });
}

}  // namespace plangrad::cuda
