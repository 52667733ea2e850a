// The graph: shared values, sinks, freeing on the way, depth, messages.
#include "autograd/graph.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "autograd/weight_part.h"
#include "tests/catch.h"
#include "tests/gradcheck.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

TEST_CASE("graph: values used more than once", "[graph]") {
  DevicePtr device = cpu_device();
  using Inputs = std::vector<Tensor>;
  const OpCase cases[] = {
      {"x * x", {{{2, 3}}}, [](const Inputs& x) { return x[0] * x[0]; }},
      {"x + x + x", {{{3}}}, [](const Inputs& x) { return x[0] + x[0] + x[0]; }},
      {"x / x * x", {{{3}, 1, 2}}, [](const Inputs& x) { return x[0] / x[0] * x[0]; }},
      {"diamond",
       {{{3}}},
       [](const Inputs& x) {
         Tensor y = tanh(x[0]);
         return exp(y) * gelu(y);
       }},
      {"a value and what is made of it",
       {{{3}}},
       [](const Inputs& x) {
         Tensor y = exp(x[0]);
         return y * tanh(y) + y + x[0];
       }},
      {"arms of different length",
       {{{2, 2}}},
       [](const Inputs& x) {
         Tensor a = exp(x[0]), b = a;
         for (int i = 0; i < 5; ++i) b = tanh(b) + a;
         return matmul(a, b) + matmul(b, a, {true, false});
       }},
      {"two broadcasts of one value",
       {{{1, 3}}, {{2, 1}}},
       [](const Inputs& x) { return (x[0] + x[1]) * (x[0] - x[1]) + x[0]; }},
      {"parts of one value",
       {{{4, 3}}},
       [](const Inputs& x) {
         Tensor y = exp(x[0]);
         return concatenate({slice(y, 0, 1, 3), slice(y, 0, 0, 2), y}, 0) * reshape(sum(y), {1, 1});
       }},
  };
  for (const OpCase& c : cases) CHECK_NOTHROW(check_op_gradients(c, device));
}

TEST_CASE("graph: a sink gets each contribution, a plain leaf their sum", "[graph]") {
  DevicePtr device = cpu_device();
  std::vector<Numbers> calls;
  Tensor x = variable(floats({2, 3}, {2}, device),
                      [&](const Tensor& dx) { calls.push_back(to_host(dx)); });
  Tensor y = variable(x.detach());
  Tensor ones = full({2}, 1, DType::f32, device);
  backward(x * x * y + x, ones);
  CHECK(calls.size() == 3);
  Numbers sum(2);
  for (const Numbers& call : calls)
    for (int i = 0; i < 2; ++i) sum[i] += call[i];
  CHECK(sum == Numbers{9, 19});  // 2xy + 1
  CHECK(to_host(gradient(y)) == Numbers{4, 9});
  backward(y + y, ones);  // a second graph on the same leaf adds
  CHECK(to_host(gradient(y)) == Numbers{6, 11});
}

TEST_CASE("graph: a function may return its gradient added to the sum so far", "[graph]") {
  DevicePtr device = cpu_device();
  for (bool leaf : {true, false})
    for (bool in_parts : {false, true}) {
      Tensor x = variable(floats({2, 3}, {2}, device));
      const Tensor h = leaf ? x : affine(x, 2);
      Numbers taken;
      auto function = [&](const Tensor& dy, const Wanted& wanted) -> std::vector<Tensor> {
        const Tensor sum = wanted.take_sum(0);
        taken = to_host(sum);
        CHECK(!wanted.take_sum(0).defined());
        return {sum + affine(dy, 10)};
      };
      const Tensor y = record(affine(h.detach(), 10), "ten times", {h}, function);
      WeightPart later;
      backward(y * h, full({2}, 1, DType::f32, device), in_parts ? &later : nullptr);
      CHECK(taken == to_host(y));
      CHECK(to_host(gradient(x)) == (leaf ? Numbers{40, 60} : Numbers{160, 240}));  // 20 h dh/dx
    }
}

TEST_CASE("graph: contributions that share storage are not added in place", "[graph]") {
  // add hands the very same tensor to both inputs.
  DevicePtr device = cpu_device();
  Tensor a = variable(floats({1}, {1}, device)), b = variable(floats({1}, {1}, device));
  Tensor p = affine(a, 2), q = affine(b, 3);
  backward((p + q) + p, full({1}, 1, DType::f32, device));
  CHECK(to_host(gradient(a)) == Numbers{4});
  CHECK(to_host(gradient(b)) == Numbers{3});
  Tensor dy = floats({1}, {1}, device);
  backward(a + a, dy);  // the caller's gradient is not touched
  CHECK(to_host(dy) == Numbers{1});
}

TEST_CASE("graph: no gradient where none is asked for", "[graph]") {
  DevicePtr device = cpu_device();
  Tensor x = variable(floats({1, 2}, {2}, device)), c = floats({3, 4}, {2}, device);
  CHECK(!(c * c).requires_grad());
  CHECK((c * x).requires_grad());
  CHECK(!(c * x).detach().requires_grad());
  {
    NoGrad off(*device);
    CHECK(!(x * x).requires_grad());
    EnableGrad on(*device);
    CHECK((x * x).requires_grad());
  }
  CHECK((x * x).requires_grad());
}

TEST_CASE("graph: messages", "[graph]") {
  DevicePtr device = cpu_device();
  Tensor x = variable(floats({1, 2}, {2}, device));
  CHECK_THROWS_WITH(gradient(x), Contains("nothing has reached this tensor"));
  CHECK_THROWS_WITH(gradient(x.detach()), Contains("make it with variable()"));
  CHECK_THROWS_WITH(backward(x.detach()), Contains("backward: this tensor has no graph"));
  Tensor y = x * x;
  CHECK_THROWS_WITH(backward(y), Contains("shape (2) needs its gradient"));
  CHECK_THROWS_WITH(backward(y, zeros({1, 2}, DType::f32, device)),
                    "backward: the gradient is (1,2), the result (2)");
  Tensor loss = sum(exp(y));
  backward(loss);
  CHECK_THROWS_WITH(backward(loss), Contains("was used and freed by an earlier backward"));
  CHECK_THROWS_WITH(backward(sum(y)), Contains("behind `multiply` was used and freed"));
}

TEST_CASE("graph: memory goes back while backward passes", "[graph]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  constexpr int depth = 50;
  constexpr std::int64_t bytes = 1000 * sizeof(float);
  Tensor x = variable(full({1000}, 0.5, DType::f32, device), [](const Tensor&) {});
  Tensor y = x;
  for (int i = 0; i < depth; ++i) y = tanh(y);
  CHECK(meter.live() == (depth + 1) * bytes);
  meter.reset_peaks();
  backward(y, full({1000}, 1, DType::f32, device));
  // What tanh kept is gone; x and y are still held here.
  CHECK(meter.live() == 2 * bytes);
  // The given gradient, and at most two more: of one result and of its input.
  CHECK(meter.peak() <= (depth + 1 + 3) * bytes);
}

TEST_CASE("graph: a gradient lives no longer than it is needed", "[graph]") {
  DevicePtr device = cpu_device();
  MemoryMeter& meter = device->meter();
  Tensor x = variable(full({1000}, 1, DType::f32, device), [](const Tensor&) {});
  Tensor y = x;
  for (int i = 0; i < 50; ++i) y = affine(y, 1.01);  // affine keeps nothing for backward
  std::int64_t before = meter.live();
  meter.reset_peaks();
  backward(sum(y));
  CHECK(meter.peak() <= before + 3 * 4000);
  CHECK(meter.live() == before);
}

TEST_CASE("graph: 100,000 operations deep", "[graph][deep]") {
  DevicePtr device = cpu_device();
  constexpr int depth = 100000;
  Tensor x = variable(floats({1}, {1}, device));

  SECTION("forward, backward, destroy") {
    Tensor y = x;
    for (int i = 0; i < depth; ++i) y = y + x;
    backward(y);
    CHECK(to_host(gradient(x)) == Numbers{depth + 1});
  }
  SECTION("destroyed without backward") {
    Tensor y = x;
    for (int i = 0; i < depth; ++i) y = affine(y, 1);
    y = {};
    CHECK(device->meter().live() == 4);
  }
  SECTION("closures hold the tensors that hold the nodes") {
    Tensor y = x;
    for (int i = 0; i < depth; ++i) y = multiply(y, x);
    SECTION("destroyed") {
      y = {};
      CHECK(device->meter().live() == 4);
    }
    SECTION("after backward") {
      backward(y);
      CHECK(item(gradient(x)) == depth + 1);
      y = {};
      CHECK(device->meter().live() == 8);  // x and its gradient
    }
  }
  SECTION("an error on the way up destroys it too") {
    CHECK_THROWS_WITH(
        [&] {
          Tensor y = x;
          for (int i = 0; i < depth; ++i) y = multiply(y, x);
          add(y, zeros({2, 3}, DType::f64, device));
        }(),
        Contains("types differ"));
    CHECK(device->meter().live() == 4);
  }
}

namespace {

/// Three layers that drop, read a shared weight twice, and multiply up.
Tensor segment(const Tensor& x, const Tensor& weight) {
  Tensor y = x;
  for (int i = 0; i < 3; ++i)
    y = dropout(gelu(linear(y, weight)), 0.3, RandomKey(11, text("drop", i))) + x;
  return y;
}

struct Outcome {
  Numbers y, dx, dweight;
  std::int64_t kept, peak;  ///< activations after forward, and during both passes
};

Outcome run_segments(bool again, bool x_needs_gradient) {
  DevicePtr device = cpu_device();
  Tensor x = uniform_tensor({{16, 8}}, "x", device, DType::f32);
  Tensor weight = variable(uniform_tensor({{8, 8}}, "weight", device, DType::f32));
  if (x_needs_gradient) x = variable(x);
  device->meter().reset_peaks();
  Tensor y = x;
  for (int i = 0; i < 4; ++i) {
    auto f = [&weight](const Tensor& x) { return segment(x, weight); };
    y = again ? recompute(f, y) : f(y);
  }
  Outcome out{to_host(y), {}, {}, device->meter().live(Category::activations), 0};
  backward(y, uniform_tensor({y.shape()}, "dy", device, DType::f32));
  out.peak = device->meter().peak(Category::activations);
  out.dweight = to_host(gradient(weight));
  if (x_needs_gradient) out.dx = to_host(gradient(x));
  return out;
}

}  // namespace

TEST_CASE("graph: recomputing gives the same bits and keeps less", "[graph][recompute]") {
  for (bool x_needs_gradient : {true, false}) {
    Outcome plain = run_segments(false, x_needs_gradient);
    Outcome again = run_segments(true, x_needs_gradient);
    CHECK(again.y == plain.y);
    CHECK(again.dx == plain.dx);
    CHECK(again.dweight == plain.dweight);
    CHECK(again.kept < plain.kept / 2);
    CHECK(again.peak < plain.peak);
  }
}

TEST_CASE("graph: recomputing inside recomputing", "[graph][recompute]") {
  DevicePtr device = cpu_device();
  auto inner = [](const Tensor& x) { return exp(tanh(x)); };
  auto outer = [&](const Tensor& x) { return recompute(inner, x) * recompute(inner, x * x); };
  auto both = [&](const std::vector<Tensor>& x) { return recompute(outer, x[0]); };
  CHECK_NOTHROW(check_gradients(both, {uniform_tensor({{3}}, "x", device)}));
  NoGrad off(*device);
  Tensor x = uniform_tensor({{3}}, "x", device);
  CHECK(!recompute(outer, variable(x)).requires_grad());
}

TEST_CASE("graph: gradients of weights wait for their part, in the sweep's order", "[graph]") {
  for (bool again : {false, true}) {
    DevicePtr device = cpu_device();
    std::vector<std::string> seen;
    auto weight = [&](const std::string& name, const Shape& shape) {
      return variable(full(shape, 0.5, DType::f32, device),
                      [&seen, name](const Tensor&) { seen.push_back(name); });
    };
    WeightPart later;
    {
      Tensor w1 = weight("w1", {2, 2}), w2 = weight("w2", {2, 2}), gain = weight("gain", {2});
      const Tensor bias = weight("bias", {2});
      Tensor x = variable(floats({1, 2}, {1, 2}, device));
      auto f = [&](const Tensor& x) { return linear(layer_norm(linear(x, w1), gain, bias), w2); };
      backward(sum(linear(again ? recompute(f, x) : f(x), w1)), {}, &later);
      CHECK(gradient(x).shape() == x.shape());
    }
    CHECK(seen.empty());
    // x's gradient lives as long as its leaf, which a layer that waits may hold; all else is kept.
    CHECK(device->meter().live(Category::workspace) <= 8);
    CHECK(device->meter().live(Category::activations) > 0);
    later.run();
    CHECK(seen == std::vector<std::string>{"w1", "w2", "gain", "bias", "w1"});
    CHECK(device->meter().live() == 0);
    later.run();  // nothing is left
    CHECK(seen.size() == 5);
  }
}

TEST_CASE("graph: a sweep that fails leaves no traces for the next one", "[graph]") {
  DevicePtr device = cpu_device();
  Tensor a = variable(floats({1}, {1}, device));
  Tensor h = affine(a, 2), kept = affine(a, 3), total = sum(kept);
  backward(sum(h));
  CHECK_THROWS_WITH(backward(sum(h) + total), Contains("used and freed"));
  backward(total);
  CHECK(to_host(gradient(a)) == Numbers{5});
}

TEST_CASE("gradcheck: a wrong gradient is found and named", "[gradcheck]") {
  DevicePtr device = cpu_device();
  auto wrong = [](const std::vector<Tensor>& x) {  // right except for the second element of b
    Tensor y = multiply(x[0].detach(), x[1].detach());
    return record(y, "wrong", x, [x](const Tensor& dy) -> std::vector<Tensor> {
      NoGrad off(*dy.device());
      return {dy * x[1], dy * x[0] * doubles({1, 1.0001}, {2}, dy.device())};
    });
  };
  std::vector<Tensor> inputs{doubles({1, 2}, {2}, device), doubles({3, 4}, {2}, device)};
  CHECK_THROWS_WITH(
      check_gradients(wrong, inputs),
      Contains("input 1 (2), element 1: backward gives") && Contains("central differences give"));
  CHECK_THROWS_WITH(check_gradients(wrong, {floats({1}, {1}, device)}),
                    Contains("input 0 is f32 (1)"));
  auto missing = [](const std::vector<Tensor>& x) { return x[0] * x[1].detach(); };
  CHECK_THROWS_WITH(check_gradients(missing, inputs), Contains("input 1 (2), element 0"));
}
