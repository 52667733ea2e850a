// Attention: against the same formula made of small operations, gradients, memory, messages.
#include "autograd/ops.h"

#include "autograd/backend.h"
#include "autograd/cpu/cpu_backend.h"
#include "tests/catch.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// -infinity above the diagonal.
Tensor causal_mask(std::int64_t time, const DevicePtr& device) {
  Numbers mask(time * time);
  for (std::int64_t q = 0; q < time; ++q)
    for (std::int64_t k = q + 1; k < time; ++k) mask[q * time + k] = -INFINITY;
  return doubles(mask, {time, time}, device);
}

/// Attention as a textbook has it, with its T x T matrices.
Tensor plain_attention(const Tensor& qkv, int heads) {
  std::int64_t batch = qkv.size(0), time = qkv.size(1), width = qkv.size(2) / 3;
  std::int64_t size = width / heads;
  auto part = [&](int i) {  // (B,H,T,d)
    Tensor x = reshape(slice(qkv, 2, i * width, (i + 1) * width), {batch, time, heads, size});
    return transpose(x, 1, 2);
  };
  Tensor scores =
      1 / std::sqrt(static_cast<double>(size)) * matmul(part(0), part(1), {false, true});
  Tensor shares = softmax(scores + causal_mask(time, qkv.device()));
  return reshape(transpose(matmul(shares, part(2)), 1, 2), {batch, time, width});
}

}  // namespace

TEST_CASE("attention: precision, and gradients of small sizes", "[attention]") {
  for (const OpCase& op : op_cases("attention")) {
    if (op.inputs[0].shape.numel() < 1500) CHECK_NOTHROW(check_op_gradients(op, cpu_device()));
    CHECK_NOTHROW(check_op_precision(op, DType::f32, cpu_device()));
    CHECK_NOTHROW(check_op_precision(op, DType::bf16, cpu_device()));
  }
}

TEST_CASE("attention: equals the textbook's formula, forward and backward", "[attention]") {
  for (OpCase op : op_cases("attention")) {
    OpResults got = run_op(op, DType::f64, cpu_device());
    int heads = std::stoi(op.name.substr(op.name.rfind(' ')));
    op.f = [heads](const std::vector<Tensor>& x) { return plain_attention(x[0], heads); };
    OpResults expected = run_op(op, DType::f64, cpu_device());
    INFO(op.name);
    for (int i : {0, 1})
      CHECK(largest_difference(got[i], expected[i]) <
            op.gradient.roundings * 0x1p-52 * (op.gradient.magnitude + op.gradient.roundings));
  }
}

TEST_CASE("attention: a position does not see what comes after it", "[attention]") {
  DevicePtr device = cpu_device();
  for (std::int64_t time : {2, 49, 100}) {
    Tensor x = uniform_tensor({{1, time, 24}}, "x", device, DType::f32);
    Numbers before = to_host(attention(x, 2));
    x.backend().fill(100, x.window((time - 1) * 24, {24}));
    Numbers after = to_host(attention(x, 2));
    bool same = std::equal(before.begin(), before.end() - 8, after.begin());
    CHECK(same);
    CHECK(before.back() != after.back());
  }
}

TEST_CASE("attention: large scores do not overflow", "[attention]") {
  DevicePtr device = cpu_device();
  Tensor x = uniform_tensor({{1, 40, 12}, -200, 200}, "x", device, DType::f32);
  for (double value : to_host(attention(x, 1))) CHECK(std::abs(value) <= 200);
}

TEST_CASE("attention: never holds T x T numbers for each head", "[attention]") {
  DevicePtr device = cpu_device();
  constexpr std::int64_t time = 1024, heads = 8, width = 64;
  Tensor x = variable(uniform_tensor({{1, time, 3 * width}}, "x", device, DType::f32),
                      [](const Tensor&) {});
  Tensor y = attention(x, heads);
  backward(y, y.detach());
  std::int64_t whole = heads * time * time * sizeof(float);
  CHECK(device->meter().peak() < whole / 4);
}

TEST_CASE("attention: what does not fit is refused", "[attention]") {
  DevicePtr device = cpu_device();
  CHECK_THROWS_WITH(attention(zeros({2, 3, 12}, DType::f32, device), 3),
                    "attention: expected (B,T,3C) with C a multiple of 3 heads, got (2,3,12)");
  CHECK_THROWS_WITH(attention(zeros({3, 12}, DType::f32, device), 1), Contains("got (3,12)"));
  CHECK_THROWS_WITH(attention(zeros({2, 3, 12}, DType::f32, device), 0), Contains("0 heads"));
}
