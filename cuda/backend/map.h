// map: y[i] = f(x[i]...), the shape of most element-wise kernels.
// Not here: inputs that are stretched (cuda/backend/broadcast.h).
// Chapter 03.
#pragma once

#include <algorithm>

#include "cuda/backend/kernel_types.h"

namespace paragrad::cuda {

template <class T, int N, class F, class... X>
__device__ Pack<T, N> apply(F f, const Pack<X, N>&... x) {
  return pack<T, N>([&]([[maybe_unused]] int i) { return f(to_float(x.at[i])...); });
}

/// Each thread computes N neighbours; the last one, what is left.
template <int N, class F, class T, class... X>
__global__ void __launch_bounds__(item_threads)
    map_kernel(std::int64_t count, F f, T* y, const X*... x) {
  const std::int64_t start = (item_number()) * N;
  if (start + N <= count)
    store(y + start, apply<T, N>(f, load<Pack<X, N>>(x + start)...));
  else
    for (std::int64_t i = start; i < count; ++i) y[i] = from_float<T>(f(to_float(x[i])...));
}

template <int N, class F, class T, class... X>
void run_map(const CudaBackend& backend, std::int64_t count, F f, T* y, const X*... x) {
  void (*kernel)(std::int64_t, F, T*, const X*...) = map_kernel<N, F, T, X...>;
  backend.run(kernel, dim3(blocks_for(count, N * item_threads)), dim3(item_threads), count, f, y,
              x...);
}

/// y[i] = f(x[i]...), computed in f32; f is a structure with a `__device__` operator(). As many
/// elements at once as are 16 bytes of the widest type, if all addresses allow.
template <class T, class F, class... X>
void map(const CudaBackend& backend, const Tensor& y, F f, const X*... x) {
  constexpr int n = std::min({pack_size<T>, pack_size<X>...});
  T* to = y.data<T>();
  if (aligned<n>(to) && (aligned<n>(x) && ...))
    run_map<n>(backend, y.numel(), f, to, x...);
  else
    run_map<1>(backend, y.numel(), f, to, x...);
}

}  // namespace paragrad::cuda
