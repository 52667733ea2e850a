// The examples of chapter 01, as they stand in its text.
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/gradcheck.h"

using namespace plangrad::autograd;
using plangrad::tests::check_gradients;

TEST_CASE("chapter 01: a slope by hand and by backward") {
  // [snippet first]
  DevicePtr device = cpu_device();
  Tensor x = variable(from_host(std::vector<double>{3}, {}, device));
  Tensor y = x * x + exp(x);
  backward(y);
  double slope = item(gradient(x));  // 2x + e^x at x = 3
  // [end snippet]
  CHECK(slope == Approx(6 + std::exp(3.0)));
}

TEST_CASE("chapter 01: a value that is used twice") {
  DevicePtr device = cpu_device();
  // [snippet diamond]
  Tensor x = variable(from_host(std::vector<double>{0.5}, {}, device));
  Tensor a = tanh(x);     // a goes two ways ...
  Tensor y = a * exp(a);  // ... and both come together
  backward(y);
  // [end snippet]
  double t = std::tanh(0.5);
  CHECK(item(gradient(x)) == Approx((1 - t * t) * (1 + t) * std::exp(t)));
}

TEST_CASE("chapter 01: every element against central differences") {
  DevicePtr device = cpu_device();
  // [snippet check]
  Tensor x = from_host(std::vector<double>{1, -2, 0.5, 3, 0.1, -1}, {2, 3}, device);
  Tensor w = from_host(std::vector<double>{0.3, 0.2, -0.7, 1, 0.4, -0.1}, {2, 3}, device);
  check_gradients([](const std::vector<Tensor>& in) { return gelu(linear(in[0], in[1])); }, {x, w});
  // [end snippet]
  auto wrong = [](const std::vector<Tensor>& in) {
    return record(in[0] * in[0], "square", {in[0]},
                  [x = in[0]](const Tensor& dy) -> std::vector<Tensor> { return {dy * x}; });
  };
  CHECK_THROWS_AS(check_gradients(wrong, {x}), Error);  // a formula without its factor 2
}

TEST_CASE("chapter 01: a gradient goes to a sink the moment it exists") {
  DevicePtr device = cpu_device();
  std::vector<std::string> seen;
  // [snippet sink]
  auto weight = [&](const char* name) {
    return variable(full({2, 2}, 0.5, DType::f32, device),
                    [&seen, name](const Tensor&) { seen.push_back(name); });
  };
  Tensor w1 = weight("w1"), w2 = weight("w2"), w3 = weight("w3");
  Tensor x = full({1, 2}, 1, DType::f32, device);
  backward(sum(linear(linear(linear(x, w1), w2), w3)));
  CHECK(seen == std::vector<std::string>{"w3", "w2", "w1"});
  // [end snippet]
}
