// Operations on the CUDA backend, on the emulator, against f64 on the CPU: every case of op_cases
// whose kernels are there, within its bounds.
// Not here: kernels called directly (backend_kernels_test.cpp).
#include "autograd/cpu/cpu_backend.h"
#include "cuda/cuda_backend.h"
#include "tests/catch.h"
#include "tests/cuda/machine.h"
#include "tests/op_checks.h"
#include "tests/sanitized.h"

using namespace paragrad::tests;
using paragrad::cuda::cuda_device;

namespace {

/// Fresh memory is NaN, and freed memory can't be read.
void check_ops(const std::string& file, const Settings& settings) {
  Machine machine(settings);
  const DevicePtr device = cuda_device(0, {.keeps_blocks = false}), cpu = cpu_device();
  for (const OpCase& op : op_cases(file))
    for (DType dtype : {DType::f32, DType::bf16})
      CHECK_NOTHROW(check_op_precision(op, dtype, device, cpu));
}

}  // namespace

TEST_CASE("backend ops: values and gradients are those of f64 within bounds") {
  const std::string file = GENERATE("arithmetic", "layout", "reduce", "rows");
  check_ops(file, {});
}

TEST_CASE("backend ops: in other orders of threads and of queued work") {
  const Settings settings =
      GENERATE(Settings{.order = Order::reverse, .schedule = Schedule::eager},
               Settings{.order = Order::random, .schedule = Schedule::random, .seed = 3});
  for (const std::string file : {"reduce", "rows"}) check_ops(file, settings);
}
