// What tests of the emulator share: settings for one test, memory that frees itself, death watched.
// Not here: kernels.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <string>
#include <vector>

#include "cuda/check.h"
#include "cuda/emulator/emulator.h"

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

/// An array in device memory, and its copy on the host.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) {
    PG_CUDA(cudaMalloc(&data_, size * sizeof(T)));
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    PG_CUDA(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  operator T*() const { return data_; }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    PG_CUDA(cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

/// What `body` prints to stderr, in a process of its own, until it dies of a fault.
/// throws: Error if it does not
std::string last_words(const std::function<void()>& body);

constexpr Order all_orders[] = {Order::forward, Order::reverse, Order::random};

}  // namespace paragrad::tests
