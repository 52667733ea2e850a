// Arithmetic element by element: values, gradients, error bounds, messages.
#include "autograd/ops.h"

#include <limits>

#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::autograd;
using namespace plangrad::tests;

TEST_CASE("arithmetic: gradients and precision", "[arithmetic]") {
  for (const OpCase& op : op_cases("arithmetic")) CHECK_NOTHROW(check_op(op, cpu_device()));
}

TEST_CASE("arithmetic: broadcasting follows NumPy", "[arithmetic]") {
  DevicePtr device = cpu_device();
  Tensor column = floats({10.f, 20.f}, {2, 1}, device);
  Tensor row = floats({1.f, 2.f, 3.f}, {3}, device);
  CHECK(to_host(column + row) == Numbers{11, 12, 13, 21, 22, 23});
  CHECK(to_host(column - row) == Numbers{9, 8, 7, 19, 18, 17});
  CHECK(to_host(column * row) == Numbers{10, 20, 30, 20, 40, 60});
  CHECK(to_host(column / row) == Numbers{10, 5, 10 / 3.f, 20, 10, 20 / 3.f});
  CHECK((column + row).shape() == Shape{2, 3});
}

TEST_CASE("arithmetic: tensors without elements", "[arithmetic]") {
  DevicePtr device = cpu_device();
  Tensor none = zeros({3, 0}, DType::f32, device);
  CHECK((none + zeros({0}, DType::f32, device)).shape() == Shape{3, 0});
  CHECK((none * zeros({3, 1}, DType::f32, device)).numel() == 0);
  CHECK(exp(none).numel() == 0);
}

TEST_CASE("arithmetic: functions at their edges", "[arithmetic]") {
  DevicePtr device = cpu_device();
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  Tensor x = floats({-infinity, -200.f, -88.f, 0.f, 88.5f, 89.f, infinity, nan}, {8}, device);
  Numbers e = to_host(exp(x));
  CHECK(e[0] == 0);
  CHECK(e[1] == 0);
  CHECK(e[2] <= std::numeric_limits<float>::min());  // denormal, or flushed to zero
  CHECK(e[3] == 1);
  CHECK(e[4] == Approx(std::exp(88.5)).epsilon(1e-6));
  CHECK(e[5] == infinity);
  CHECK(e[6] == infinity);
  CHECK(std::isnan(e[7]));
  CHECK(to_host(relu(x))[0] == 0);
  CHECK(std::isnan(to_host(relu(x))[7]));  // a loss that is not a number must stay visible
  Numbers g = to_host(gelu(floats({-100.f, 100.f, 0.f}, {3}, device)));
  CHECK(g == Numbers{0, 100, 0});
}

TEST_CASE("arithmetic: relu has slope 0 at 0", "[arithmetic]") {
  Tensor x = variable(floats({-1.f, 0.f, 1.f}, {3}, cpu_device()));
  backward(relu(x), full({3}, 5, DType::f32, x.device()));
  CHECK(to_host(gradient(x)) == Numbers{0, 0, 5});
}

TEST_CASE("arithmetic: dropout keeps the mean and follows its key", "[arithmetic]") {
  DevicePtr device = cpu_device();
  Tensor ones = full({1001}, 1, DType::f32, device);
  RandomKey key(3, "mask");
  Numbers y = to_host(dropout(ones, 0.25, key));
  for (int i = 0; i < 1001; ++i) CHECK(y[i] == (uniform(key, i) >= 0.25f ? 1 / 0.75f : 0.f));
  CHECK(to_host(dropout(ones, 0.25, key)) == y);
  CHECK(to_host(dropout(ones, 0.25, RandomKey(3, "other"))) != y);
  CHECK(to_host(dropout(ones, 0, key)) == to_host(ones));
  CHECK_THROWS_WITH(dropout(ones, 1, key), Contains("probability must be in [0,1), got 1"));
  CHECK_THROWS_WITH(dropout(ones, -0.5, key), Contains("got -0.5"));
}

TEST_CASE("arithmetic: cast converts forward and back", "[arithmetic]") {
  Tensor x = variable(floats({1.f, 1.001f, -3.f}, {3}, cpu_device()));
  Tensor y = cast(x, DType::bf16);
  CHECK(y.dtype() == DType::bf16);
  CHECK(to_host(y) == Numbers{1, 1, -3});
  backward(y, full({3}, 0.5, DType::bf16, x.device()));
  CHECK(gradient(x).dtype() == DType::f32);
  CHECK(to_host(gradient(x)) == Numbers{0.5, 0.5, 0.5});
  CHECK(cast(x, DType::f32).node() == x.node());
}

TEST_CASE("arithmetic: what does not fit is refused", "[arithmetic]") {
  DevicePtr device = cpu_device();
  Tensor x = zeros({2, 3}, DType::f32, device);
  CHECK_THROWS_WITH(x + zeros({2}, DType::f32, device), "shapes (2,3) and (2) do not broadcast");
  CHECK_THROWS_WITH(x * zeros({3}, DType::f64, device),
                    "multiply: types differ, a is f32 (2,3), b is f64 (3)");
  CHECK_THROWS_WITH(x / zeros({3}, DType::f32, cpu_device()), Contains("different devices"));
  CHECK_THROWS_WITH(bias_gelu(x, zeros({2}, DType::f32, device)), Contains("expected (3)"));
  CHECK_THROWS_WITH(exp(integers({1}, {1}, device)),
                    "this operation needs a floating-point tensor, not i32");
}
