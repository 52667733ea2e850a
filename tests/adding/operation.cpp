// SiLU in two ways: composed of operations, whose gradients follow; and with a formula of its own.
// Then the loop of a kernel that computes it in one pass. Not here: the line that makes the loop a
// kernel of every backend (autograd/kernels.h).
// Chapter 14; Elfwing, Uchibe and Doya 2018.
#include <cmath>

#include "autograd/cpu/parallel.h"
#include "autograd/ops.h"
#include "tests/adding/added.h"

namespace plangrad::autograd {

// [snippet composed]
Tensor silu_of_operations(const Tensor& x) { return x / affine(exp(negate(x)), 1, 1); }
// [end snippet]

// [snippet recorded]
// With s = 1 / (1 + e^-x):  y = x s,  dx = dy (s + y (1 - s))
Tensor silu(const Tensor& x) {
  const Tensor values = x.detach();  // outside the graph: nothing below is recorded by itself
  const Tensor s = affine(tanh(affine(values, 0.5)), 0.5, 0.5);
  const Tensor y = values * s;
  return record(y, "silu", x, [y, s](const Tensor& dy) { return dy * (s + y * affine(s, -1, 1)); });
}
// [end snippet]

// [snippet kernel]
/// In autograd/cpu/elementwise.cpp this is CpuBackend::silu(In x, Out y).
void silu_on_cpu(const Tensor& x, const Tensor& y) {
  dispatch(x.dtype(), [&]<class T>() {
    cpu::map<T>(
        y, [](auto v) { return v / (1 + std::exp(-v)); }, x.data<T>());
  });
}
// [end snippet]

}  // namespace plangrad::autograd
