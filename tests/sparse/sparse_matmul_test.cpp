// The backend's sparse products against plain sums, exactly: small whole numbers lose nothing.
// Not here: rounding and gradients (tests/sparse/sparse_linear_test.cpp).

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/csr.h"
#include "tests/guarded_device.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;
using namespace plangrad::sparse;

namespace {

constexpr DType types[] = {DType::f32, DType::bf16, DType::f64};

/// Whole numbers from -3 to 3.
Tensor whole(Shape shape, const std::string& name, const DevicePtr& device, DType dtype) {
  Numbers values(shape.numel());
  for (std::size_t i = 0; i < values.size(); ++i)
    values[i] = std::floor(7 * uniform(RandomKey(1, name), i)) - 3;
  Tensor x = empty(shape, dtype, device);
  device->backend().copy(doubles(values, shape, device), x);
  return x;
}

double rounded(double value, DType dtype) {
  return dtype == DType::bf16 ? static_cast<float>(bf16(static_cast<float>(value))) : value;
}

/// Which elements a matrix has.
struct Mask {
  const char* name;
  bool (*keeps)(std::int64_t row, std::int64_t column, double random);
};
const Mask masks[] = {
    {"none", [](std::int64_t, std::int64_t, double) { return false; }},
    {"all", [](std::int64_t, std::int64_t, double) { return true; }},
    {"first", [](std::int64_t r, std::int64_t c, double) { return r == 0 && c == 0; }},
    {"tenth", [](std::int64_t, std::int64_t, double x) { return x < 0.1; }},
    {"half, in every third row",
     [](std::int64_t r, std::int64_t, double x) { return r % 3 == 1 && x < 0.5; }}};

/// The matrix (m,k) and n vectors for it.
struct Sizes {
  std::int64_t m, k, n;
};

SparsePattern make_pattern(const Mask& mask, Sizes s, const DevicePtr& device) {
  std::vector<std::int32_t> index;
  for (std::int64_t i = 0; i < s.m * s.k; ++i)
    if (mask.keeps(i / s.k, i % s.k, uniform(RandomKey(1, "mask"), i)))
      index.push_back(static_cast<std::int32_t>(i));
  std::int64_t count = static_cast<std::int64_t>(index.size());
  return pattern_of(integers(index, {count}, device), s.m, s.k);
}

/// Calls body(i, row, column) for each element of a pattern.
template <class Body>
void for_elements(const SparsePattern& pattern, Body&& body) {
  Numbers offsets = to_host(pattern.offsets), columns = to_host(pattern.columns);
  for (std::int64_t r = 0; r < pattern.rows(); ++r)
    for (auto i = static_cast<std::int64_t>(offsets[r]); i < offsets[r + 1]; ++i)
      body(i, r, static_cast<std::int64_t>(columns[i]));
}

void check_spmm(const SparsePattern& pattern, std::int64_t n, bool with_bias, DType dtype,
                const DevicePtr& device) {
  std::int64_t m = pattern.rows(), k = pattern.width;
  Tensor values = whole({pattern.elements()}, "a", device, dtype);
  Tensor b = whole({n, k}, "b", device, dtype), bias;
  if (with_bias) bias = whole({m}, "bias", device, dtype);
  Tensor c = full({n, m}, std::numeric_limits<double>::quiet_NaN(), dtype, device);
  device->backend().spmm(pattern, values, b, bias, c);

  Numbers expected(c.numel()), hv = to_host(values), hb = to_host(b);
  Numbers start = with_bias ? to_host(bias) : Numbers(m);
  for (std::int64_t r = 0; r < m; ++r)
    for (std::int64_t j = 0; j < n; ++j) expected[j * m + r] = start[r];
  for_elements(pattern, [&](std::int64_t i, std::int64_t r, std::int64_t column) {
    for (std::int64_t j = 0; j < n; ++j) expected[j * m + r] += hv[i] * hb[j * k + column];
  });
  for (double& value : expected) value = rounded(value, dtype);
  CHECK(to_host(c) == expected);
}

void check_sddmm(const SparsePattern& pattern, std::int64_t n, DType dtype,
                 const DevicePtr& device) {
  std::int64_t m = pattern.rows(), k = pattern.width;
  Tensor d = whole({n, m}, "d", device, dtype);
  Tensor b = whole({n, k}, "b", device, dtype);
  Tensor values = full({pattern.elements()}, std::numeric_limits<double>::quiet_NaN(),
                       gradient_dtype(dtype), device);
  device->backend().sddmm(pattern, d, b, values);

  Numbers expected(pattern.elements()), hd = to_host(d), hb = to_host(b);
  for_elements(pattern, [&](std::int64_t i, std::int64_t r, std::int64_t column) {
    for (std::int64_t j = 0; j < n; ++j) expected[i] += hd[j * m + r] * hb[j * k + column];
  });
  CHECK(to_host(values) == expected);
}

// One, and on both sides of the sizes of registers, blocks and panels of every type.
const Sizes sizes[] = {{1, 1, 1},    {3, 7, 5},    {16, 16, 64},  {17, 33, 63},
                       {31, 9, 129}, {65, 15, 32}, {8, 130, 131}, {2, 64, 257}};

}  // namespace

TEST_CASE("sparse matmul: spmm and sddmm are the sums that their formulas say", "[sparse]") {
  DevicePtr device = cpu_device();
  for (Sizes s : sizes)
    for (const Mask& mask : masks)
      for (DType dtype : types) {
        SparsePattern pattern = make_pattern(mask, s, device);
        INFO(s.m << ' ' << s.k << ' ' << s.n << ' ' << mask.name << ' ' << dtype);
        check_spmm(pattern, s.n, false, dtype, device);
        check_spmm(pattern, s.n, true, dtype, device);
        check_sddmm(pattern, s.n, dtype, device);
      }
}

TEST_CASE("sparse matmul: a transposed pattern reads the values where they stand", "[sparse]") {
  DevicePtr device = cpu_device();
  for (DType dtype : types) {
    SparsePattern pattern = make_pattern(masks[3], {33, 41, 0}, device);
    Csr a{pattern, whole({pattern.elements()}, "a", device, dtype)};
    Tensor dense = to_dense(a), turned = empty({41, 33}, dtype, device);
    device->backend().permute(dense, {1, 0}, turned);
    Csr expected = to_csr(turned, turned);
    Tensor b = whole({20, 33}, "b", device, dtype), c = empty({20, 41}, dtype, device);
    Tensor same = empty_like(c);
    device->backend().spmm(transposed(pattern), a.values, b, {}, c);
    device->backend().spmm(expected.pattern, expected.values, b, {}, same);
    CHECK(to_host(c) == to_host(same));
  }
}

TEST_CASE("sparse matmul: without vectors there are no products", "[sparse]") {
  DevicePtr device = cpu_device();
  SparsePattern pattern = make_pattern(masks[1], {3, 5, 0}, device);
  check_spmm(pattern, 0, true, DType::f32, device);
  check_sddmm(pattern, 0, DType::f32, device);
}

TEST_CASE("sparse matmul: a device whose memory the host can't touch", "[sparse]") {
  DevicePtr device = guarded_device();
  SparsePattern pattern = make_pattern(masks[3], {17, 33, 0}, device);
  check_spmm(pattern, 65, true, DType::bf16, device);
  check_sddmm(pattern, 65, DType::bf16, device);
}

namespace {

/// Bits of both products, of numbers that do lose something.
std::vector<Numbers> products(const SparsePattern& pattern, std::int64_t n, DType dtype) {
  const DevicePtr& device = pattern.offsets.device();
  std::int64_t m = pattern.rows(), k = pattern.width;
  Tensor values = uniform_tensor({{pattern.elements()}}, "a", device, dtype);
  Tensor b = uniform_tensor({{n, k}}, "b", device, dtype);
  Tensor d = uniform_tensor({{n, m}}, "d", device, dtype);
  Tensor c = empty({n, m}, dtype, device);
  Tensor sampled = empty({pattern.elements()}, gradient_dtype(dtype), device);
  device->backend().spmm(pattern, values, b, {}, c);
  device->backend().sddmm(pattern, d, b, sampled);
  return {to_host(c), to_host(sampled)};
}

}  // namespace

TEST_CASE("sparse matmul: the same bits on any number of threads", "[sparse]") {
  // One row has as many elements as all others together, so that shares are not rows.
  Mask mask{"skewed",
            [](std::int64_t r, std::int64_t, double x) { return r == 5 || (r > 150 && x < 0.01); }};
  SparsePattern pattern = make_pattern(mask, {301, 331, 0}, cpu_device());
  int before = compute_threads();
  for (DType dtype : types) {
    set_compute_threads(1);
    auto one = products(pattern, 200, dtype);
    for (int threads : {2, 3, 7}) {
      set_compute_threads(threads);
      bool same = products(pattern, 200, dtype) == one;
      CHECK(same);
    }
    set_compute_threads(before);
  }
}

TEST_CASE("sparse matmul: the same bits whatever stands beside a vector", "[sparse]") {
  // As with dense products, cutting a batch must not change its parts.
  DevicePtr device = cpu_device();
  SparsePattern pattern = make_pattern(masks[3], {48, 64, 0}, device);
  Tensor values = uniform_tensor({{pattern.elements()}}, "a", device, DType::f32);
  Tensor x = uniform_tensor({{96, 64}}, "x", device, DType::f32);
  auto product = [&](const Tensor& b) {
    Tensor c = empty({b.size(0), 48}, DType::f32, device);
    device->backend().spmm(pattern, values, b, {}, c);
    return to_host(c);
  };
  Numbers all = product(x), part = product(x.window(0, {37, 64}));
  CHECK(Numbers(all.begin(), all.begin() + 37 * 48) == part);
}
