// Reductions: values, gradients, error bounds, messages.
#include "autograd/ops.h"

#include <limits>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

TEST_CASE("reduce: gradients and precision", "[reduce]") {
  for (const OpCase& op : op_cases("reduce")) CHECK_NOTHROW(check_op(op, cpu_device()));
}

TEST_CASE("reduce: values and shapes", "[reduce]") {
  Tensor x = floats({1, 2, 3, 4, 5, 6}, {2, 3}, cpu_device());
  CHECK(to_host(sum(x, {0})) == Numbers{5, 7, 9});
  CHECK(sum(x, {0}).shape() == Shape{1, 3});
  CHECK(to_host(mean(x, {-1})) == Numbers{2, 5});
  CHECK(mean(x, {-1}).shape() == Shape{2, 1});
  CHECK(to_host(max(x, {0, 1})) == Numbers{6});
  CHECK(sum(x).shape() == Shape{});
  CHECK(item(sum(x)) == 21);
  CHECK(item(mean(x)) == 3.5);
  CHECK(to_host(sum_to(x, {2, 1})) == Numbers{6, 15});
  CHECK(to_host(sum_to(x, {3})) == Numbers{5, 7, 9});
  CHECK_THROWS_WITH(sum(x, {2}), "shape (2,3) has no dimension 2");
}

TEST_CASE("reduce: equal maxima share the gradient", "[reduce]") {
  Tensor x = variable(floats({3, 1, 3, 2, 2, 2}, {2, 3}, cpu_device()));
  backward(max(x, {1}), floats({1, 3}, {2, 1}, x.device()));
  CHECK(to_host(gradient(x)) == Numbers{0.5, 0, 0.5, 1, 1, 1});
}

TEST_CASE("reduce: a maximum keeps NaN and minus infinity", "[reduce]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (int at : {0, 3, 16, 40}) {
    std::vector<float> values(41, 1);
    values[at] = nan;
    CHECK(std::isnan(item(max(floats(values, {41}, cpu_device()), {0}))));
  }
  CHECK(item(max(floats({-infinity, -infinity}, {2}, cpu_device()), {0})) == -infinity);
}

TEST_CASE("reduce: bf16 sums are added up in f32", "[reduce]") {
  // In bf16, 256 + 1 rounds back to 256: a sum kept in bf16 would stop there.
  Tensor x = full({20, 100}, 1, DType::bf16, cpu_device());
  CHECK(item(sum(x)) == 2000);
  CHECK(to_host(sum(x, {1})) == Numbers(20, 100));
}

TEST_CASE("reduce: sum of squares", "[reduce]") {
  DevicePtr device = cpu_device();
  for (std::int64_t n : {0, 1, 7, 4095, 4097, 10001}) {
    Tensor x = uniform_tensor({{n}}, "x", device, DType::f32);
    double expected = 0;
    for (double value : to_host(x)) expected += value * value;
    // All terms are positive: the relative error is at most n roundings of f64.
    CHECK(std::abs(x.backend().sums_of_squares({x})[0] - expected) <= 2 * n * 0x1p-53 * expected);
  }
  CHECK(device->backend().sums_of_squares({full({3}, 1e30, DType::f32, device)})[0] > 2.9e60);
}
