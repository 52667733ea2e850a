// What tests of the emulator share: settings for one test, death watched.
// Not here: kernels, and memory for them (device_array.h).
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>

#include "cuda/emulator/emulator.h"
#include "tests/cuda/device_array.h"

namespace paragrad::tests {

using cuda::emulator::Order;
using cuda::emulator::Schedule;
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

constexpr Order all_orders[] = {Order::forward, Order::reverse, Order::random};

}  // namespace paragrad::tests
