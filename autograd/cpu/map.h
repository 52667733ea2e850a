// map: y[i] = f(x[i]...), the loop of most element-wise kernels.
// Not here: inputs that are stretched (autograd/cpu/elementwise.cpp).
// Chapter 03.
#pragma once

#include "autograd/cpu/parallel.h"
#include "autograd/tensor.h"

namespace paragrad::autograd::cpu {

/// y[i] = f(x[i]...), in the compute type of y.
template <class T, class F, class... X>
void map(const Tensor& y, F f, const X*... x) {
  T* out = y.data<T>();
  parallel_for(y.numel(), element_grain, [=](std::int64_t first, std::int64_t last) {
#pragma omp simd
    for (std::int64_t i = first; i < last; ++i) out[i] = f(static_cast<Compute<X>>(x[i])...);
  });
}

}  // namespace paragrad::autograd::cpu
