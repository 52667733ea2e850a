// The emulated machine of a test, with its settings; death watched.
// Not here: what tests of GPUs have, too (machine.h), memory for kernels (device_array.h).
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>

#include "cuda/backend/cuda_backend.h"
#include "cuda/emulator/emulator.h"

namespace plangrad::tests {

using cuda::emulator::Order;
using QueueSchedule = cuda::emulator::Schedule;  // plans have another
using cuda::emulator::Settings;

/// While it lives, the emulated machine has these settings; afterwards, nothing is left of it.
class Machine {
 public:
  explicit Machine(Settings settings = {}) { cuda::emulator::configure(settings); }
  ~Machine() {
    cuda::emulator::reset();
    cudaSetDevice(0);
    cuda::emulator::configure({});
  }
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
};

/// Faults are remembered and waits are short, for tests of what goes wrong.
inline Settings faulty() { return {.patience = 0.2, .abort_on_fault = false}; }

/// What `body` prints to stderr, in a process of its own, until it dies of a fault.
/// throws: Error if it does not
std::string last_words(const std::function<void()>& body);

/// Freed memory can't be read; the emulator fills what is fresh with NaN.
inline autograd::DevicePtr make_strict_device(int ordinal) {
  return cuda::cuda_device(ordinal, {.keeps_blocks = false});
}

constexpr bool nccl_is_built = true;

constexpr Order all_orders[] = {Order::forward, Order::reverse, Order::random};

}  // namespace plangrad::tests
