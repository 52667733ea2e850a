// The blank device against the CPU: each operation, forward and backward, takes the same bytes of
// each category, kernels' scratch among them; no value can be read; and kernels' work by shapes.
// Not here: whole models (tests/parallel/planner/layer_costs_test.cpp).
#include "autograd/blank/blank_device.h"

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/catch.h"
#include "tests/op_checks.h"

using namespace plangrad::tests;

namespace {

/// The most bytes of each category, and at the end those that are left.
std::vector<std::int64_t> bytes_of_run(const OpCase& op, DType dtype, const DevicePtr& device) {
  MemoryMeter& meter = device->meter();
  {
    std::vector<Tensor> leaves;
    for (const OpInput& input : op.inputs)
      leaves.push_back(variable(uniform_tensor(input, text("x", leaves.size()), device, dtype)));
    const Tensor y = op.f(leaves);
    backward(y, uniform_tensor({y.shape()}, "dy", device, y.dtype()));
  }
  std::vector<std::int64_t> bytes{meter.peak(), meter.live()};
  for (int i = 0; i < category_count; ++i) bytes.push_back(meter.peak(static_cast<Category>(i)));
  return bytes;
}

}  // namespace

TEST_CASE("blank device: every operation takes the bytes that it takes on the CPU", "[blank]") {
  const int threads = GENERATE(1, 3);
  set_compute_threads(threads);
  int cases = 0, with_scratch = 0;
  for (const char* file :
       {"arithmetic", "attention", "image", "layout", "matmul", "reduce", "rows"})
    for (const OpCase& op : op_cases(file))
      for (DType dtype : {DType::f32, DType::bf16, DType::f64}) {
        INFO(op.name << ' ' << dtype << ", threads " << threads);
        const auto cpu = bytes_of_run(op, dtype, cpu_device());
        CHECK(bytes_of_run(op, dtype, blank_device(std::make_shared<CpuBackend>())) == cpu);
        with_scratch += bytes_of_run(op, dtype, blank_device())[0] < cpu[0];
        ++cases;
      }
  CHECK(cases > 500);
  CHECK(with_scratch > 100);  // or the test would say nothing of scratch
}

TEST_CASE("blank device: no value can be read, and no memory is taken", "[blank]") {
  const DevicePtr device = blank_device();
  const Tensor x = zeros({1 << 20, 1 << 20}, DType::f32, device);  // 4 TiB
  CHECK(device->meter().live() == std::int64_t{1} << 42);
  CHECK_THROWS_WITH(item(mean(x)), Contains("tensors of the blank device have no values"));
  CHECK_THROWS_WITH(x.backend().sums_of_squares({x}), Contains("sums_of_squares: tensors"));
  CHECK_THROWS_WITH(x.backend().magnitude(x, 1), Contains("magnitude: tensors"));
  CHECK(take_kernels(*cpu_device()).empty());
}

TEST_CASE("blank device: a device that can't say its scratch is no model for it", "[blank]") {
  struct Silent : CpuBackend {
    const char* name() const override { return "silent"; }
    void without_values(const std::function<void()>& work) override {
      Backend::without_values(work);
    }
  };
  const DevicePtr device = blank_device(std::make_shared<Silent>());
  const Tensor x = empty({2, 2}, DType::f32, device);
  CHECK_THROWS_WITH(softmax(x), "the device silent can't say which memory its kernels use");
}

TEST_CASE("blank device: kernels' work follows from shapes", "[blank]") {
  const DevicePtr device = blank_device(std::make_shared<CpuBackend>());
  const Tensor x = variable(empty({3, 5, 8}, DType::bf16, device));
  const Tensor w = variable(empty({24, 8}, DType::bf16, device));
  backward(attention(linear(x, w, {}), 2), empty({3, 5, 8}, DType::bf16, device));
  const KernelTable kernels = take_kernels(*device);
  CHECK(take_kernels(*device).empty());

  const KernelCalls& product = kernels.at("gemm NT 15x24x8");
  CHECK(product.calls == 1);
  CHECK(product.dtype == DType::bf16);
  CHECK(product.flops == 2 * 15 * 24 * 8);
  CHECK(product.bytes == 2 * (15 * 8 + 24 * 8 + 15 * 24));
  CHECK(Products::fields(product.products) == std::tuple(15, 24, 8, 1));
  CHECK(kernels.at("gemm NN 15x8x24").flops == product.flops);
  CHECK(kernels.at("gemm TN 24x8x15").bytes == 2 * (15 * 24 + 15 * 8) + 4 * 24 * 8);  // f32 sums

  // Half of 6 heads' products of (5,4) and (4,5), and of (5,5) and (5,4) matrices.
  const KernelCalls& forward = kernels.at("attention");
  CHECK(forward.flops == 2 * 6 * (2 * 5 * 5 * 4) / 2);
  CHECK(kernels.at("attention_backward").flops == 2 * forward.flops);
  CHECK(Products::fields(forward.products) == std::tuple(5, 5, 4, 6));
}
