// sparse_linear: a linear layer with a pruned weight, computed on the kept elements only.
// Not here: the choice of kept elements (pruning.h); dense products with explicit zeros, which are
// faster while half of the weights are left (tests/benchmarks/results/sparse_matmul.md).
// Gale et al. 2020, "Sparse GPU kernels for deep learning".
#pragma once

#include "autograd/backend.h"
#include "autograd/graph.h"

namespace plangrad::sparse {

using namespace autograd;

// The tensors of a pattern are charged to the device's current category.

/// Makes a pattern of the elements at these indices into the flattened matrix. Values in the order
/// of the indices are in the pattern's order.
/// shapes: index (elements), i32 -> a pattern (rows,columns)
/// throws: Error if the indices do not ascend, or if one lies outside the matrix
SparsePattern pattern_of(const Tensor& index, std::int64_t rows, std::int64_t columns);

/// Makes the pattern of the transposed matrix, for use with the values of `pattern`.
SparsePattern transposed(const SparsePattern& pattern);

/// The elements of a layer's weight (Out,In), by rows for x W^T and by columns for dy W.
struct SparseWeight {
  SparsePattern pattern, transposed;

  /// Makes both patterns from indices into the flattened weight (pattern_of).
  SparseWeight(const Tensor& index, std::int64_t out, std::int64_t in);
};

/// x W^T + bias; bias may be undefined. The gradient of `values` has their shape, and has
/// gradient_dtype.
/// shapes: x (...,In), values (elements) or (1,elements), bias (Out) -> (...,Out)
/// throws: Error if sizes or types differ
Tensor sparse_linear(const Tensor& x, const SparseWeight& weight, const Tensor& values,
                     const Tensor& bias = {});

}  // namespace plangrad::sparse
