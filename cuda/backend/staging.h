// Staging: copies between ordinary host memory and a device by way of pinned memory, which alone
// the device can read and write while the host does something else.
// Not here: copies within the device.
// CUDA C++ Programming Guide, page-locked host memory.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstddef>
#include <cstdint>

namespace paragrad::cuda {

/// Used by one thread at a time, for the device that is current at the first copy.
class Staging {
 public:
  Staging() = default;
  ~Staging();
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Returns when `source` may be changed; it waits for the stream only if all slots are under way.
  void to_device(void* target, const void* source, std::int64_t bytes, cudaStream_t stream);
  /// Returns when `target` has been written.
  void to_host(void* target, const void* source, std::int64_t bytes, cudaStream_t stream);

 private:
  /// Pinned memory, and when the last copy that used it has ended.
  struct Slot {
    std::byte* memory = nullptr;
    cudaEvent_t done = nullptr;
  };
  Slot& free_slot();

  std::array<Slot, 16> slots_;
  std::size_t next_ = 0;
};

}  // namespace paragrad::cuda
