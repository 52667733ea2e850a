// Operations element by element: arithmetic with broadcasting, functions, dropout, conversion.
// Not here: kernels (autograd/cpu). An operation checks shapes, calls a kernel, records its
// gradient. Chapter 01.
#pragma once

#include "autograd/graph.h"
#include "autograd/random.h"

namespace paragrad::autograd {

/// Element by element, after broadcasting by NumPy's rule.
/// throws: Error if shapes do not broadcast or types differ
Tensor add(const Tensor& a, const Tensor& b);
Tensor subtract(const Tensor& a, const Tensor& b);
Tensor multiply(const Tensor& a, const Tensor& b);
Tensor divide(const Tensor& a, const Tensor& b);
inline Tensor operator+(const Tensor& a, const Tensor& b) { return add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return subtract(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return multiply(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return divide(a, b); }

/// scale * x + shift
Tensor affine(const Tensor& x, double scale, double shift = 0);
inline Tensor operator*(double scale, const Tensor& x) { return affine(x, scale); }

Tensor negate(const Tensor& x);
Tensor exp(const Tensor& x);
Tensor log(const Tensor& x);
Tensor sqrt(const Tensor& x);
Tensor tanh(const Tensor& x);
/// max(x, 0); the gradient at 0 is 0.
Tensor relu(const Tensor& x);
/// x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3)))
/// source: Hendrycks and Gimpel 2016, section 2, as GPT-2 uses it
Tensor gelu(const Tensor& x);
/// gelu(x + bias) in one pass.
/// shapes: x (...,C), bias (C) -> (...,C)
Tensor bias_gelu(const Tensor& x, const Tensor& bias);

/// x / (1 - p) with probability 1 - p, else 0; element i is decided by uniform(key, i).
/// throws: Error unless 0 <= p < 1
/// source: Srivastava et al. 2014
Tensor dropout(const Tensor& x, double p, RandomKey key);

/// x in another floating-point type. The gradient comes back in x's type.
Tensor cast(const Tensor& x, DType dtype);

}  // namespace paragrad::autograd
