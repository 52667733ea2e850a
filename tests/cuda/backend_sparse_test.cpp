// The CUDA backend's products with sparse matrices against the CPU's, exactly: small whole numbers
// lose nothing. Not here: what the CPU's mean (tests/sparse/sparse_matmul_test.cpp).

#include "autograd/cpu/cpu_backend.h"
#include "cuda/backend/cuda_backend.h"
#include "sparse/samo.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;
using namespace plangrad::sparse;

namespace {

/// The matrix (m,k) and n vectors for it.
struct Sizes {
  std::int64_t m, k, n;
};

/// Whole numbers from -3 to 3.
Tensor whole(Shape shape, const std::string& name, const DevicePtr& device, DType dtype) {
  std::vector<float> values(shape.numel());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::floor(7 * uniform(RandomKey(1, name), i)) - 3;
  return from_host(values, shape, device, dtype);
}

/// A matrix that keeps this share of its elements in two rows of three, and none in the third.
SparsePattern make_pattern(Sizes s, double share, const DevicePtr& device) {
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < s.m * s.k; ++i)
    if (i / s.k % 3 != 1 && uniform(RandomKey(1, "mask"), i) < share)
      index.push_back(static_cast<std::int32_t>(i));
  const auto count = static_cast<std::int64_t>(index.size());
  return pattern_of(integers(index, {count}, device), s.m, s.k);
}

/// C = B A^T + bias, C = B A^T, C = B A with the values of A, and the elements of D^T B.
std::vector<Numbers> products(Sizes s, double share, DType dtype, const DevicePtr& device) {
  Backend& backend = device->backend();
  const SparsePattern pattern = make_pattern(s, share, device);
  const Tensor values = whole({pattern.elements()}, "a", device, dtype);
  const Tensor b = whole({s.n, s.k}, "b", device, dtype);
  const Tensor d = whole({s.n, s.m}, "d", device, dtype);
  const Tensor bias = whole({s.m}, "bias", device, dtype);
  const Tensor c = empty(d.shape(), dtype, device), plain = empty(d.shape(), dtype, device);
  const Tensor turned = empty(b.shape(), dtype, device);
  const Tensor sampled = empty({pattern.elements()}, gradient_dtype(dtype), device);
  backend.spmm(pattern, values, b, bias, c);
  backend.spmm(pattern, values, b, {}, plain);
  backend.spmm(transposed(pattern), values, d, {}, turned);
  backend.sddmm(pattern, d, b, sampled);
  return {to_host(c), to_host(plain), to_host(turned), to_host(sampled)};
}

void check_products(const Settings& settings) {
  Machine machine(settings);
  const DevicePtr device = strict_device(), cpu = cpu_device();
  for (Sizes s : {Sizes{1, 1, 1}, {3, 7, 5}, {17, 33, 63}, {9, 16, 264}, {65, 15, 31}, {4, 5, 0}})
    for (double share : {0.0, 0.3, 1.0})
      for (DType dtype : {DType::f32, DType::bf16}) {
        INFO(s.m << ' ' << s.k << ' ' << s.n << ", " << share << ", " << dtype);
        const bool same = products(s, share, dtype, device) == products(s, share, dtype, cpu);
        CHECK(same);
      }
}

}  // namespace

TEST_CASE("backend sparse: products are the CPU's") { check_products({}); }

TEST_CASE("backend sparse: in other orders of threads and of queued work") {
  check_products({.order = Order::random, .schedule = QueueSchedule::lazy, .seed = 2});
}
