// sparse_linear: a layer whose weight is pruned, computed on the elements that are left alone.
// Not here: which elements these are (pruning.h); dense products with explicit zeros, which are
// faster while half of the weights are left (tests/benchmarks/results/sparse_matmul.md).
// Gale et al. 2020, "Sparse GPU kernels for deep learning".
#pragma once

#include "autograd/backend.h"
#include "autograd/graph.h"

namespace paragrad::sparse {

using namespace autograd;

// The tensors of a pattern are charged to the device's current category.

/// The pattern of the elements whose indices into the flattened matrix are given. Values in the
/// order of these indices are in the pattern's order.
/// shapes: index (elements), i32 -> a pattern (rows,columns)
/// throws: Error if the indices do not ascend, or if one lies outside the matrix
SparsePattern pattern_of(const Tensor& index, std::int64_t rows, std::int64_t columns);

/// The pattern of the transposed matrix, to be used with the values of this one.
SparsePattern transposed(const SparsePattern& pattern);

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
