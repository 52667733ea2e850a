// Matrix products: matmul for any batch of matrices, linear for a layer's weights.
// Not here: the product itself, which is the backend's gemm.
// Chapter 01.
#pragma once

#include "autograd/graph.h"

namespace paragrad::autograd {

/// Whether matmul reads a matrix transposed.
struct Transposes {
  bool a = false, b = false;
};

/// op(a) op(b), matrix by matrix; op transposes the last two dimensions where asked.
/// shapes: op(a) (...,M,K), op(b) (...,K,N) -> (...,M,N); leading dimensions equal, or b has none
/// throws: Error if inner sizes, leading dimensions or types differ
Tensor matmul(const Tensor& a, const Tensor& b, Transposes transposes = {});

/// x weight^T + bias; bias may be undefined.
/// shapes: x (...,In), weight (Out,In), bias (Out) -> (...,Out)
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});

}  // namespace paragrad::autograd
