// sparse_linear: a layer whose weight is pruned, computed on the elements that are left alone.
// Not here: dense products with explicit zeros, which are faster while half of the weights are left
// (tests/benchmarks/results/sparse_matmul.md).
// Gale et al. 2020, "Sparse GPU kernels for deep learning".
#pragma once

#include "autograd/graph.h"
#include "sparse/csr.h"

namespace paragrad::sparse {

/// Where a layer's weight (Out,In) has elements: by rows for x W^T, by columns for dy W.
struct SparseWeight {
  SparsePattern pattern, transposed;

  /// The elements at these indices into the flattened weight (pattern_of).
  SparseWeight(const Tensor& index, std::int64_t out, std::int64_t in);
};

/// x W^T + bias; bias may be undefined. The values' gradient has their shape, and is of
/// gradient_dtype.
/// shapes: x (...,In), values (elements) or (1,elements), bias (Out) -> (...,Out)
/// throws: Error if sizes or types differ
Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& values,
                     const Tensor& bias = {});

}  // namespace paragrad::sparse
