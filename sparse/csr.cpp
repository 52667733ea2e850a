// Patterns are made on the host, once for a mask.
// Not here: anything that runs in a training step.
// Gale et al. 2020.
#include "sparse/csr.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace paragrad::sparse {

namespace {

using Integers = std::vector<std::int32_t>;

Integers host_integers(const Tensor& x) {
  PG_CHECK(x.dtype() == DType::i32, "csr: expected indices in i32, got ", x);
  Integers values(x.numel());
  x.backend().copy_to_host(x, values.data());
  return values;
}

Tensor on_device(const Integers& values, const DevicePtr& device) {
  return from_host(values, {static_cast<std::int64_t>(values.size())}, device);
}

/// Where each row begins, from the row of every element, and after the last one the end.
Integers offsets_of(const Integers& rows, std::int64_t count) {
  Integers offsets(count + 1);
  for (std::int32_t row : rows) ++offsets[row + 1];
  std::partial_sum(offsets.begin(), offsets.end(), offsets.begin());
  return offsets;
}

/// The row of every element.
Integers rows_of(const Integers& offsets) {
  Integers rows(offsets.back());
  for (std::size_t r = 0; r + 1 < offsets.size(); ++r)
    std::fill(rows.begin() + offsets[r], rows.begin() + offsets[r + 1], r);
  return rows;
}

}  // namespace

SparsePattern pattern_of(const Tensor& index, std::int64_t rows, std::int64_t columns) {
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  PG_CHECK(rows > 0 && columns > 0 && columns <= most / rows, "csr: a matrix of ", rows, " by ",
           columns, " is empty or has more elements than an i32 can count");
  Integers row = host_integers(index), column(row.size());
  std::int64_t before = -1;
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::int64_t flat = row[i];
    PG_CHECK(flat > before && flat < rows * columns, "csr: index ", flat, " after ", before,
             " does not ascend, or is outside a matrix of ", rows, " by ", columns);
    before = flat;
    row[i] = static_cast<std::int32_t>(flat / columns);
    column[i] = static_cast<std::int32_t>(flat % columns);
  }
  return {on_device(offsets_of(row, rows), index.device()), on_device(column, index.device()),
          columns};
}

Csr to_csr(const Tensor& dense, const Tensor& mask) {
  PG_CHECK(dense.shape().rank() == 2 && dense.shape() == mask.shape(),
           "csr: expected a matrix and a mask like it, got ", dense.shape(), " and ", mask.shape());
  std::vector<double> keep = to_host(mask);
  Integers index;
  for (std::size_t i = 0; i < keep.size(); ++i)
    if (keep[i] != 0) index.push_back(static_cast<std::int32_t>(i));
  Tensor flat = on_device(index, dense.device());
  std::int64_t count = flat.numel();
  Csr result{pattern_of(flat, dense.size(0), dense.size(1)),
             empty({count}, dense.dtype(), dense.device())};
  dense.backend().embedding(dense.window(0, {dense.numel(), 1}), flat,
                            result.values.window(0, {count, 1}));
  return result;
}

Tensor to_dense(const Csr& matrix) {
  Integers offsets = host_integers(matrix.pattern.offsets);
  Integers columns = host_integers(matrix.pattern.columns), rows = rows_of(offsets);
  std::int64_t width = matrix.pattern.width, size = size_of(matrix.values.dtype());
  Tensor dense =
      empty({matrix.pattern.rows(), width}, matrix.values.dtype(), matrix.values.device());
  std::vector<std::byte> values(matrix.values.bytes()), all(dense.bytes());  // +0 is zero bytes
  matrix.values.backend().copy_to_host(matrix.values, values.data());
  for (std::size_t i = 0; i < columns.size(); ++i)
    std::copy_n(values.data() + i * size, size, all.data() + (rows[i] * width + columns[i]) * size);
  dense.backend().copy_from_host(all.data(), dense);
  return dense;
}

SparsePattern transposed(const SparsePattern& pattern) {
  PG_CHECK(!pattern.source.defined(), "csr: the pattern is transposed already");
  Integers columns = host_integers(pattern.columns);
  Integers rows = rows_of(host_integers(pattern.offsets));
  Integers offsets = offsets_of(columns, pattern.width), next = offsets;
  Integers row(rows.size()), source(rows.size());
  for (std::size_t i = 0; i < columns.size(); ++i) {
    std::int32_t to = next[columns[i]]++;
    row[to] = rows[i];
    source[to] = static_cast<std::int32_t>(i);
  }
  const DevicePtr& device = pattern.columns.device();
  return {on_device(offsets, device), on_device(row, device), pattern.rows(),
          on_device(source, device)};
}

}  // namespace paragrad::sparse
