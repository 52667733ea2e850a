// Rows of a table by id, and the gradient of the table.
// Not here: elements by index (layout.cu).
// Chapter 02.
#include "cuda/backend/index_fault.h"
#include "cuda/backend/kernel_types.h"
#include "cuda/backend/words.h"

namespace paragrad::cuda {

namespace {

constexpr int warps = item_threads / 32;

/// Rows of `width` words.
template <class Word>
__global__ void __launch_bounds__(item_threads)
    embedding_kernel(std::int64_t count, std::int64_t width, const Word* table, const int* ids,
                     std::int64_t limit, Word* y, IndexFault* fault) {
  const std::int64_t i = item_number();
  if (i >= count) return;
  const int id = ids[i / width];
  if (inside(id, limit, IndexUse::embedding, fault)) y[i] = table[id * width + i % width];
}

/// A warp for 32 N columns of a row r of dy: if r is the first row of its id, the warp adds up the
/// rows of that id, in their order; it looks for them by 32 ids at once. So no two warps write the
/// same sum, and no order of warps changes it.
template <int N, class T>
__global__ void __launch_bounds__(item_threads)
    embedding_backward_kernel(std::int64_t rows, std::int64_t width, const int* ids, const T* dy,
                              float* dtable, std::int64_t limit) {
  const std::int64_t mine = std::int64_t{blockIdx.x} * warps + threadIdx.x / 32;
  if (mine >= rows) return;  // all of the warp
  const int id = ids[mine], lane = threadIdx.x % 32;
  const std::int64_t column = (std::int64_t{blockIdx.y} * 32 + lane) * N;
  if (id < 0 || id >= limit) return;  // the forward pass has noted it
  float sum[N] = {};
  for (std::int64_t start = 0; start < rows; start += 32) {
    const std::int64_t r = start + lane;
    unsigned equal = __ballot_sync(~0u, r < rows && ids[r] == id);
    for (; equal; equal &= equal - 1) {
      const std::int64_t found = start + __ffs(static_cast<int>(equal)) - 1;
      if (found < mine) return;  // all of the warp: an earlier row's adds this one
      if (column >= width) continue;
      const auto d = load<Pack<T, N>>(dy + found * width + column);
      for (int j = 0; j < N; ++j) sum[j] += to_float(d.at[j]);
    }
  }
  if (column >= width) return;
  float* total = dtable + id * width + column;
  if constexpr (N > 1) {
    for (int j = 0; j < N; j += 4)
      store(total + j, pack<float, 4>([&](int i) { return sum[j + i]; }));
  } else {
    *total = sum[0];
  }
}

}  // namespace

void CudaBackend::embedding(In table, In ids, Out y) {
  refuse_f64(table);
  const std::int64_t bytes = table.size(1) * size_of(table.dtype());
  dispatch_words(
      [&]<class Word>() {
        const std::int64_t width = bytes / sizeof(Word), count = ids.numel() * width;
        run_each(embedding_kernel<Word>, count, width, reinterpret_cast<const Word*>(table.raw()),
                 ids, table.size(0), reinterpret_cast<Word*>(y.raw()), fault_);
      },
      address_of(table.raw()), address_of(y.raw()), bytes);
}

void CudaBackend::embedding_backward(In ids, In dy, Out dtable) {
  fill(0, dtable);
  const std::int64_t rows = ids.numel(), width = dtable.size(1);
  dispatch(dy, [&]<class T>() {
    const bool packed = packs_fit<T>(width, dy) && aligned<4>(dtable.data<float>());
    const int n = packed ? pack_size<T> : 1;
    run(packed ? embedding_backward_kernel<pack_size<T>, T> : embedding_backward_kernel<1, T>,
        dim3(blocks_for(rows, warps), blocks_for(width, 32 * n)), dim3(item_threads), rows, width,
        ids, dy, dtable, dtable.size(0));
  });
}

}  // namespace paragrad::cuda
