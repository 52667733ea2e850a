// What tests of kernels share: the same call on the CPU and on the emulated device.
#pragma once

#include "autograd/cpu/cpu_backend.h"
#include "autograd/ops.h"
#include "tests/cuda/machine.h"
#include "tests/numbers.h"
#include "tests/op_checks.h"

namespace plangrad::tests {

/// The values of the tensor that `f` computes on the CPU, and on the emulated device.
struct Both {
  Numbers cpu, cuda;

  explicit Both(const std::function<Tensor(const DevicePtr&)>& f)
      : cpu(to_host(f(cpu_device()))), cuda(to_host(f(strict_device()))) {}

  bool equal() const {
    if (cpu.size() != cuda.size()) return false;
    for (std::size_t i = 0; i < cpu.size(); ++i)
      if (cpu[i] != cuda[i] && !(std::isnan(cpu[i]) && std::isnan(cuda[i]))) return false;
    return true;
  }
  double largest_error() const { return largest_difference(cpu, cuda); }
};

inline Tensor numbers(const char* name, Shape shape, DType dtype, const DevicePtr& device) {
  return uniform_tensor({std::move(shape)}, name, device, dtype);
}

/// A tensor that begins at an odd element, where packs can't be loaded.
inline Tensor off_by_one(const char* name, std::int64_t count, DType dtype,
                         const DevicePtr& device) {
  return numbers(name, {count + 1}, dtype, device).window(1, {count});
}

constexpr DType floating[] = {DType::f32, DType::bf16};
constexpr std::int64_t sizes[] = {0, 1, 7, 1023, 1025, 2051};

}  // namespace plangrad::tests
