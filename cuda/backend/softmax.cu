// Softmax, by a block for each row.
// Not here: attention's softmax, which never stands in memory whole.
// Chapter 03.
#include "cuda/backend/rows.h"

namespace paragrad::cuda {

namespace {

template <int N, class T>
__global__ void __launch_bounds__(most_row_threads)
    softmax_kernel(std::int64_t width, const T* x, T* y) {
  const T* row = x + blockIdx.x * width;
  const ExpSum exps = exp_sum<N>(row, width);
  const float scale = 1 / exps.sum;
  for_packs<N>(row, width, [&](std::int64_t c, const Pack<T, N>& p) {
    store(y + blockIdx.x * width + c,
          pack<T, N>([&](int j) { return expf(to_float(p.at[j]) - exps.top) * scale; }));
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

}  // namespace

void CudaBackend::softmax(In x, Out y) {
  const std::int64_t width = x.size(1);
  dispatch(x, [&]<class T>() {
    const bool packed = packs_fit<T>(width, x, y);
    run(packed ? softmax_kernel<pack_size<T>, T> : softmax_kernel<1, T>, dim3(x.size(0)),
        row_threads(width), width, x, y);
  });
}

void CudaBackend::softmax_backward(In y, In dy, Out dx) {
  const std::int64_t width = y.size(1);
  dispatch(y, [&]<class T>() {
    const bool packed = packs_fit<T>(width, y, dy, dx);
    run(packed ? softmax_backward_kernel<pack_size<T>, T> : softmax_backward_kernel<1, T>,
        dim3(y.size(0)), row_threads(width), width, y, dy, dx);
  });
}

}  // namespace paragrad::cuda
