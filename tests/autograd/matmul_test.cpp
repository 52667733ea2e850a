// Matrix products: values, gradients, error bounds, the backend's gemm in all its forms, messages.
#include "autograd/ops.h"

#include <limits>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

TEST_CASE("matmul: gradients and precision", "[matmul]") {
  for (const OpCase& op : op_cases("matmul")) CHECK_NOTHROW(check_op(op, cpu_device()));
}

TEST_CASE("matmul: values", "[matmul]") {
  DevicePtr device = cpu_device();
  Tensor a = floats({1, 2, 3, 4, 5, 6}, {2, 3}, device);
  Tensor b = floats({1, 0, 2, 1, 0, 3}, {3, 2}, device);
  CHECK(to_host(matmul(a, b)) == Numbers{5, 11, 14, 23});
  CHECK(to_host(matmul(a, a, {false, true})) == Numbers{14, 32, 32, 77});
  CHECK(to_host(linear(a, b.window(0, {2, 3}), floats({10, 20}, {2}, device))) ==
        Numbers{17, 30, 26, 42});
}

TEST_CASE("matmul: gemm adds and transposes as its formula says", "[matmul]") {
  struct Size {
    std::int64_t batch, m, n, k;
  };
  DevicePtr device = cpu_device();
  for (Size s : {Size{1, 1, 1, 1}, {1, 7, 33, 129}, {3, 5, 2, 17}, {1, 65, 96, 64}, {2, 1, 129, 3}})
    for (int form = 0; form < 4; ++form)
      for (bool add : {false, true})
        for (bool with_bias : {false, true}) {
          bool ta = form & 1, tb = form & 2;
          Backend::Gemm how{ta, tb, add};
          OpInput ai{ta ? Shape{s.batch, s.k, s.m} : Shape{s.batch, s.m, s.k}};
          OpInput bi{tb ? Shape{s.batch, s.n, s.k} : Shape{s.batch, s.k, s.n}};
          Tensor a = uniform_tensor(ai, "a", device, DType::f32);
          Tensor b = uniform_tensor(bi, "b", device, DType::f32);
          Tensor c = uniform_tensor({{s.batch, s.m, s.n}}, "c", device, DType::f32);
          // Without add, what c held must not count, not even if it was not a number.
          if (!add) c.backend().fill(std::numeric_limits<double>::quiet_NaN(), c);
          Tensor bias = with_bias ? uniform_tensor({{s.n}}, "bias", device, DType::f32) : Tensor();
          Numbers pa = to_host(a), pb = to_host(b), before = to_host(c);
          Numbers pbias = with_bias ? to_host(bias) : Numbers(s.n);
          a.backend().gemm(how, a, b, bias, c);
          Numbers got = to_host(c);
          double worst = 0;
          for (std::int64_t i = 0; i < s.batch * s.m * s.n; ++i) {
            std::int64_t batch = i / (s.m * s.n), row = i / s.n % s.m, column = i % s.n;
            double sum = 0;
            for (std::int64_t l = 0; l < s.k; ++l)
              sum += pa[batch * s.m * s.k + (ta ? l * s.m + row : row * s.k + l)] *
                     pb[batch * s.k * s.n + (tb ? column * s.k + l : l * s.n + column)];
            double expected = sum + (add ? before[i] : 0) + pbias[column];
            double error = std::abs(got[i] - expected);
            worst = std::max(worst, error == error ? error : 1e9);
          }
          INFO(s.m << ' ' << s.n << ' ' << s.k << ' ' << form << ' ' << add << ' ' << with_bias);
          // All factors are below 1: k + 4 roundings of sums below k + 2.
          CHECK(worst <= (s.k + 4) * 0x1p-24 * (s.k + 2));
        }
}

TEST_CASE("matmul: a weight's gradient in bf16 is summed in f32", "[matmul]") {
  DevicePtr device = cpu_device();
  Tensor x = full({600, 1}, 1, DType::bf16, device);
  Tensor weight = variable(full({1, 1}, 1, DType::bf16, device));
  Tensor bias = variable(zeros({1}, DType::bf16, device));
  backward(linear(x, weight, bias), full({600, 1}, 1, DType::bf16, device));
  CHECK(gradient(weight).dtype() == DType::f32);
  CHECK(item(gradient(weight)) == 600);  // not a bf16 number, and far from what bf16 would reach
  CHECK(item(gradient(bias)) == 600);
}

TEST_CASE("matmul: the same bits whatever stands beside a row", "[matmul]") {
  // Cutting a batch must not change its parts: data parallelism is compared bit for bit.
  DevicePtr device = cpu_device();
  Tensor x = uniform_tensor({{96, 64}}, "x", device, DType::f32);
  Tensor weight = uniform_tensor({{48, 64}}, "weight", device, DType::f32);
  Numbers whole = to_host(linear(x, weight));
  Numbers part = to_host(linear(x.window(0, {48, 64}), weight));
  CHECK(Numbers(whole.begin(), whole.begin() + 48 * 48) == part);
}

TEST_CASE("matmul: what does not fit is refused", "[matmul]") {
  DevicePtr device = cpu_device();
  auto of = [&](Shape shape) { return zeros(std::move(shape), DType::f32, device); };
  CHECK_THROWS_WITH(matmul(of({2, 3}), of({2, 3})),
                    "matmul: inner sizes differ, a is (2,3), b is (2,3)");
  CHECK_THROWS_WITH(matmul(of({2, 3}), of({4, 2}), {false, true}), Contains("(4,2) transposed"));
  CHECK_THROWS_WITH(matmul(of({3}), of({3, 2})), Contains("expected matrices, a is (3)"));
  CHECK_THROWS_WITH(matmul(of({2, 2, 3}), of({3, 3, 2})), Contains("leading dimensions differ"));
  CHECK_THROWS_WITH(matmul(of({2, 3}), zeros({3, 2}, DType::f64, device)),
                    "matmul: types differ, a is f32 (2,3), b is f64 (3,2)");
  CHECK_THROWS_WITH(matmul(of({2, 3, 2}), of({3, 2}), {true, false}),
                    Contains("transpose a first"));
  CHECK_THROWS_WITH(linear(of({2, 3}), of({4, 2})),
                    "linear: x is (2,3), the weight (4,2); expected (Out,3)");
  CHECK_THROWS_WITH(linear(of({2, 3}), of({4, 3}), of({3})), Contains("bias"));
}
