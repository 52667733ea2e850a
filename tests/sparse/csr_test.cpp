// Patterns of sparse matrices: from indices, transposed, and back to dense matrices; bytes.
#include <cmath>

#include "autograd/cpu/cpu_backend.h"
#include "autograd/random.h"
#include "tests/catch.h"
#include "tests/csr.h"
#include "tests/guarded_device.h"

using namespace plangrad::tests;
using namespace plangrad::sparse;

namespace {

/// A matrix of values in 1..8 of which a share is kept, and that many others are zero.
Tensor some_zero(std::int64_t rows, std::int64_t columns, double kept, const DevicePtr& device,
                 DType dtype = DType::f32) {
  Numbers values(rows * columns);
  for (std::size_t i = 0; i < values.size(); ++i)
    if (uniform(RandomKey(1, "kept"), i) < kept)
      values[i] = 1 + std::floor(8 * uniform(RandomKey(1, "value"), i));
  Tensor x = empty({rows, columns}, dtype, device);
  device->backend().copy(doubles(values, {rows, columns}, device), x);
  return x;
}

}  // namespace

TEST_CASE("csr: offsets, columns and values of a matrix", "[csr]") {
  DevicePtr device = cpu_device();
  Tensor dense = floats({0, 5, 6, 0, 0, 0, 7, 0, 8}, {3, 3}, device);
  Csr a = to_csr(dense, integers({0, 1, 1, 0, 0, 0, 0, 1, 1}, {3, 3}, device));
  CHECK(to_host(a.pattern.offsets) == Numbers{0, 2, 2, 4});
  CHECK(to_host(a.pattern.columns) == Numbers{1, 2, 1, 2});
  CHECK(to_host(a.values) == Numbers{5, 6, 0, 8});  // the mask decides, not the value
  SparsePattern b = pattern_of(integers({1, 2, 7, 8}, {4}, device), 3, 3);
  CHECK(to_host(b.offsets) == to_host(a.pattern.offsets));
  CHECK(to_host(b.columns) == to_host(a.pattern.columns));
}

TEST_CASE("csr: a matrix comes back from its elements", "[csr]") {
  for (const DevicePtr& device : {cpu_device(), guarded_device()})
    for (DType dtype : {DType::f32, DType::bf16, DType::f64})
      for (auto [rows, columns] : {std::pair{1, 1}, {1, 9}, {9, 1}, {17, 33}})
        for (double kept : {0.0, 0.1, 0.9, 1.0}) {
          Tensor dense = some_zero(rows, columns, kept, device, dtype);
          Csr a = to_csr(dense, dense);
          INFO(dtype << ' ' << rows << ' ' << columns << ' ' << kept);
          CHECK(a.values.dtype() == dtype);
          CHECK(to_host(to_dense(a)) == to_host(dense));
        }
}

TEST_CASE("csr: a transposed pattern is the transposed matrix's", "[csr]") {
  DevicePtr device = cpu_device();
  for (double kept : {0.0, 0.2, 1.0}) {
    Tensor dense = some_zero(5, 7, kept, device), turned = empty({7, 5}, DType::f32, device);
    device->backend().permute(dense, {1, 0}, turned);
    Csr a = to_csr(dense, dense), expected = to_csr(turned, turned);
    SparsePattern t = transposed(a.pattern);
    CHECK(t.width == 5);
    CHECK(to_host(t.offsets) == to_host(expected.pattern.offsets));
    CHECK(to_host(t.columns) == to_host(expected.pattern.columns));
    Numbers values, given = to_host(a.values), source = to_host(t.source);
    for (double i : source) values.push_back(given[static_cast<std::size_t>(i)]);
    CHECK(values == to_host(expected.values));
  }
}

TEST_CASE("csr: bytes go to the category of the moment", "[csr]") {
  DevicePtr device = cpu_device();
  Tensor dense = some_zero(9, 11, 0.5, device, DType::bf16);
  std::int64_t before = device->meter().live();
  CategoryScope category(*device, Category::optimizer);
  Csr a = to_csr(dense, dense);
  std::int64_t count = a.pattern.elements();
  CHECK(count > 0);
  CHECK(device->meter().live(Category::optimizer) == 4 * (9 + 1) + 4 * count + 2 * count);
  SparsePattern t = transposed(a.pattern);
  CHECK(device->meter().live() - before == 4 * (10 + 12) + (4 + 2 + 4 + 4) * count);
}
