// Csr: a matrix of which only the elements that a mask keeps are stored, row by row.
// Not here: which elements to keep, and products with the matrix (sparse/sparse_linear.h).
// Gale et al. 2020, "Sparse GPU kernels for deep learning".
#pragma once

#include "autograd/backend.h"

namespace paragrad::sparse {

using namespace autograd;

/// A pattern's tensors, and those below, are charged to the device's current category.
struct Csr {
  SparsePattern pattern;
  Tensor values;  ///< of the elements, in their order
};

/// The pattern of the elements whose indices into the flattened matrix are given. A layer's kept
/// values in the order of these indices are a Csr's values.
/// shapes: index (elements), i32 -> a pattern (rows,columns)
/// throws: Error if the indices do not ascend, or if one lies outside the matrix
SparsePattern pattern_of(const Tensor& index, std::int64_t rows, std::int64_t columns);

/// The elements of a matrix where the mask, of any type, is not zero.
/// throws: Error if the shapes differ or are not matrices'
Csr to_csr(const Tensor& dense, const Tensor& mask);

/// The whole matrix, with zeros.
Tensor to_dense(const Csr& matrix);

/// The pattern of the transposed matrix, to be used with the values of this one.
SparsePattern transposed(const SparsePattern& pattern);

}  // namespace paragrad::sparse
