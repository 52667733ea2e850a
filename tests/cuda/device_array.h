// DeviceArray: device memory that frees itself, for tests and benchmarks, on GPUs and the emulator.
// Not here: tensors, whose memory is a Backend's.
#pragma once

#include <cuda_runtime.h>

#include <vector>

#include "cuda/launch/runtime.h"

namespace plangrad::tests {

/// An array in device memory, and its copy on the host.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t size) : size_(size) { PG_CUDA(cudaMalloc(&data_, bytes())); }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    PG_CUDA(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice));
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  operator T*() const { return data_; }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::vector<T> values() const {
    std::vector<T> result(size_);
    PG_CUDA(cudaMemcpy(result.data(), data_, bytes(), cudaMemcpyDeviceToHost));
    return result;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_;
};

}  // namespace plangrad::tests
