// Arena: addresses of one device, or of pinned host memory, each used once. No memory is mapped
// past the end of an allocation, or after it has been freed, so that such accesses fault.
// Not here: the size of a device's memory, and the owners of addresses (device_memory.h).
// Electric Fence (Perens 1987) is the model; under AddressSanitizer its own allocator takes over.
#pragma once

#include <cstddef>

namespace plangrad::cuda::emulator {

constexpr std::size_t arena_bytes = std::size_t{64} << 30;  ///< of addresses

class Arena {
 public:
  /// Fresh memory, aligned to 256 bytes as cudaMalloc's is, which reads as NaN.
  std::byte* allocate(std::size_t bytes);
  /// False if something was written just before or just behind the allocation.
  bool free(std::byte* start, std::size_t bytes);
  bool contains(const void* address) const;

 private:
  std::byte* start_ = nullptr;  // reserved at the first allocation
  std::byte* next_ = nullptr;
};

}  // namespace plangrad::cuda::emulator
