// Rows: softmax, layer norm, cross-entropy, embedding: values, gradients, bounds, messages.
#include "autograd/ops.h"

#include <limits>
#include <numeric>

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

const float infinity = std::numeric_limits<float>::infinity();
const float nan_value = std::numeric_limits<float>::quiet_NaN();

}  // namespace

TEST_CASE("rows: gradients and precision", "[rows]") {
  for (const OpCase& op : op_cases("rows")) CHECK_NOTHROW(check_op(op, cpu_device()));
}

TEST_CASE("softmax: large values, equal values, infinities, NaN", "[rows]") {
  DevicePtr device = cpu_device();
  CHECK(to_host(softmax(floats({1e30f, 1e30f, -1e30f}, {3}, device))) == Numbers{0.5, 0.5, 0});
  CHECK(to_host(softmax(floats({5, -infinity}, {2}, device))) == Numbers{1, 0});
  CHECK(to_host(softmax(floats({7}, {1}, device))) == Numbers{1});
  for (double value : to_host(softmax(floats({1, nan_value, 2}, {3}, device))))
    CHECK(std::isnan(value));
  for (std::int64_t width : {2, 33, 1000}) {
    Numbers y = to_host(softmax(uniform_tensor({{1, width}, -9, 9}, "x", device, DType::f32)));
    CHECK(std::abs(std::accumulate(y.begin(), y.end(), 0.0) - 1) <= (width + 8) * 0x1p-24);
  }
}

TEST_CASE("layer norm: rows come out with mean 0 and variance 1", "[rows]") {
  DevicePtr device = cpu_device();
  // A mean far from zero: the variance must not be taken as E x^2 - (E x)^2.
  Tensor x = uniform_tensor({{4, 257}, 999, 1001}, "x", device, DType::f32);
  Tensor ones = full({257}, 1, DType::f32, device), none = zeros({257}, DType::f32, device);
  Numbers y = to_host(layer_norm(x, ones, none));
  for (int r = 0; r < 4; ++r) {
    double sum = 0, squares = 0;
    for (int c = 0; c < 257; ++c) {
      sum += y[r * 257 + c];
      squares += y[r * 257 + c] * y[r * 257 + c];
    }
    // The mean of 257 numbers near 1000 may be off by 257 roundings; the deviation is above 0.5.
    double shift = 257 * 1000 * 0x1p-24 / 0.5;
    CHECK(std::abs(sum / 257) < shift);
    CHECK(std::abs(squares / 257 - 1) < shift * shift + 257 * 0x1p-24);
  }
  Numbers constant = to_host(layer_norm(full({1, 257}, 3, DType::f32, device), ones, ones));
  CHECK(constant == Numbers(257, 1));
}

TEST_CASE("cross-entropy: values", "[rows]") {
  DevicePtr device = cpu_device();
  auto loss = [&](const std::vector<float>& logits, const std::vector<std::int32_t>& targets) {
    std::int64_t n = static_cast<std::int64_t>(targets.size());
    std::int64_t c = static_cast<std::int64_t>(logits.size()) / n;
    return item(cross_entropy(floats(logits, {n, c}, device), integers(targets, {n}, device)));
  };
  CHECK(loss({0, 0, 0, 0}, {2}) == Approx(std::log(4)).epsilon(1e-6));
  CHECK(loss({1, 2, 3, 1, 2, 3}, {0, 2}) ==
        Approx(std::log(1 + std::exp(-1) + std::exp(-2)) + 1).epsilon(1e-6));
  CHECK(loss({1000, 0}, {0}) == 0);
  CHECK(loss({1000, 0}, {1}) == 1000);
  CHECK(loss({1e30f, -1e30f}, {0}) == 0);
  CHECK(std::isnan(loss({nan_value, 0}, {1})));
  CHECK(std::isnan(loss({0, nan_value, 0, 0}, {0})));
}

TEST_CASE("cross-entropy: the loss of bf16 logits is f32", "[rows]") {
  DevicePtr device = cpu_device();
  Tensor logits = variable(zeros({2, 3, 5}, DType::bf16, device));
  Tensor loss = cross_entropy(logits, integers({0, 1, 2, 3, 4, 0}, {2, 3}, device));
  CHECK(loss.dtype() == DType::f32);
  CHECK(loss.shape() == Shape{});
  CHECK(item(loss) == Approx(std::log(5)).epsilon(1e-6));
  backward(loss);
  CHECK(gradient(logits).dtype() == DType::bf16);
}

TEST_CASE("embedding: rows by id, and the sums of their gradients", "[rows]") {
  DevicePtr device = cpu_device();
  Tensor table = variable(floats({0, 1, 10, 11, 20, 21}, {3, 2}, device));
  Tensor y = embedding(table, integers({2, 0, 2}, {3, 1}, device));
  CHECK(y.shape() == Shape{3, 1, 2});
  CHECK(to_host(y) == Numbers{20, 21, 0, 1, 20, 21});
  backward(y, floats({1, 2, 3, 4, 5, 6}, {3, 1, 2}, device));
  CHECK(to_host(gradient(table)) == Numbers{3, 4, 0, 0, 6, 8});
}

TEST_CASE("embedding: a table's gradient in bf16 is summed in f32", "[rows]") {
  DevicePtr device = cpu_device();
  Tensor table = variable(zeros({2, 1}, DType::bf16, device));
  Tensor y = embedding(table, integers(std::vector<std::int32_t>(600, 1), {600}, device));
  backward(y, full(y.shape(), 1, DType::bf16, device));
  CHECK(to_host(gradient(table)) == Numbers{0, 600});
}

TEST_CASE("rows: what does not fit is refused", "[rows]") {
  DevicePtr device = cpu_device();
  Tensor x = zeros({2, 3}, DType::f32, device), w = zeros({3}, DType::f32, device);
  CHECK_THROWS_WITH(softmax(zeros({}, DType::f32, device)), "expected rows of values, got ()");
  CHECK_THROWS_WITH(softmax(zeros({2, 0}, DType::f32, device)), Contains("got (2,0)"));
  CHECK_THROWS_WITH(layer_norm(x, zeros({2}, DType::f32, device), w), Contains("expected (3)"));
  CHECK_THROWS_WITH(layer_norm(x, w, zeros({3, 1}, DType::f32, device)), Contains("expected (3)"));
  CHECK_THROWS_WITH(cross_entropy(x, integers({0}, {1}, device)), Contains("expected i32 (2)"));
  CHECK_THROWS_WITH(cross_entropy(x, x), Contains("targets are f32 (2,3)"));
  CHECK_THROWS_WITH(cross_entropy(x, integers({0, 3}, {2}, device)),
                    Contains("target 3 is outside [0,3)"));
  CHECK_THROWS_WITH(cross_entropy(x, integers({-1, 0}, {2}, device)), Contains("target -1"));
  CHECK_THROWS_WITH(embedding(x, integers({0, 2}, {2}, device)), Contains("id 2 is outside [0,2)"));
  CHECK_THROWS_WITH(embedding(x, integers({-1}, {1}, device)), Contains("id -1"));
  CHECK_THROWS_WITH(embedding(x, x), Contains("ids of i32"));
}
