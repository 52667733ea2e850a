// Csr: a matrix with its elements stored row by row, made of a dense matrix, and back. Tests of
// sparse products compare with it.
#pragma once

#include "sparse/samo.h"
#include "tests/numbers.h"

namespace plangrad::tests {

struct Csr {
  SparsePattern pattern;
  Tensor values;  ///< of the elements, in their order
};

/// The elements of a matrix where the mask, of any type, is not zero.
inline Csr to_csr(const Tensor& dense, const Tensor& mask) {
  const Numbers keep = to_host(mask);
  std::vector<std::int32_t> index;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) index.push_back(static_cast<std::int32_t>(i));
  const auto count = static_cast<std::int64_t>(index.size());
  const Tensor flat = integers(index, {count}, dense.device());
  Csr result{sparse::pattern_of(flat, dense.size(0), dense.size(1)),
             empty({count}, dense.dtype(), dense.device())};
  dense.backend().gather(dense, flat, /*add*/ false, result.values);
  return result;
}

/// The whole matrix, with zeros.
inline Tensor to_dense(const Csr& matrix) {
  const Numbers offsets = to_host(matrix.pattern.offsets);
  const Numbers columns = to_host(matrix.pattern.columns);
  const std::int64_t rows = matrix.pattern.rows(), width = matrix.pattern.width;
  std::vector<std::int32_t> index;
  for (std::int64_t r = 0; r < rows; ++r)
    for (auto i = static_cast<std::size_t>(offsets[r]); i < offsets[r + 1]; ++i)
      index.push_back(static_cast<std::int32_t>(r * width + columns[i]));
  const Tensor& values = matrix.values;
  Tensor dense = empty({rows, width}, values.dtype(), values.device());
  values.backend().expand(values, integers(index, values.shape(), values.device()), dense);
  return dense;
}

}  // namespace plangrad::tests
