// Formulas that CPU and GPU share: functions of one number, and their gradients.
// Not here: exp and sigmoid, which each processor computes in its own way, and loops. A CPU's loop
// is vectorised only where the compiler inlines the formula: that is 5 to 10 times faster.
// Chapter 03; Hendrycks and Gimpel 2016 for GELU.
#pragma once

#include <cmath>

#include "autograd/backend.h"

namespace plangrad::autograd {

// GELU in GPT-2's form. With u = sqrt(2/pi) (x + 0.044715 x^3):  (1 + tanh u) / 2 = sigmoid(2u).
template <class C>
inline constexpr C gelu_scale = C(2 * 0.79788456080286535588);

template <class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gelu_sigmoid(C x) {
  return Math::sigmoid(gelu_scale<C> * x * (1 + C(0.044715) * x * x));
}

template <class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gelu(C x) {
  return x * gelu_sigmoid<Math>(x);
}

/// d gelu(x) / dx
template <class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gelu_slope(C x) {
  const C s = gelu_sigmoid<Math>(x);
  return s + x * s * (1 - s) * gelu_scale<C> * (1 + 3 * C(0.044715) * x * x);
}

template <Unary op, class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C value_of(C x) {
  if constexpr (op == Unary::negate) return -x;
  if constexpr (op == Unary::exp) return Math::exp(x);
  if constexpr (op == Unary::log) return std::log(x);
  if constexpr (op == Unary::sqrt) return std::sqrt(x);
  if constexpr (op == Unary::tanh) return std::tanh(x);
  if constexpr (op == Unary::relu) return x < 0 ? C(0) : x;
  if constexpr (op == Unary::gelu) return gelu<Math>(x);
}

/// Whether op's gradient is computed from the result; if not, from the input.
constexpr bool reads_result(Unary op) {
  return op == Unary::exp || op == Unary::sqrt || op == Unary::tanh;
}

/// dx, from the result y or the input x, and the gradient g of the result.
template <Unary op, class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gradient_of(C x_or_y, C g) {
  if constexpr (op == Unary::negate) return -g;
  if constexpr (op == Unary::exp) return g * x_or_y;
  if constexpr (op == Unary::log) return g / x_or_y;
  if constexpr (op == Unary::sqrt) return g / (2 * x_or_y);
  if constexpr (op == Unary::tanh) return g * (1 - x_or_y * x_or_y);
  if constexpr (op == Unary::relu) return x_or_y > 0 ? g : C(0);
  if constexpr (op == Unary::gelu) return g * gelu_slope<Math>(x_or_y);
}

/// Calls `kernel.template operator()<op>()`.
template <class Kernel>
void dispatch(Unary op, Kernel&& kernel) {
  dispatch<0, static_cast<int>(Unary::gelu)>(
      static_cast<int>(op), [&]<int n>() { kernel.template operator()<static_cast<Unary>(n)>(); });
}

}  // namespace plangrad::autograd
