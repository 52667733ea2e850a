// The memory of the emulated devices, and pinned host memory: the bytes that each device holds, the
// allocation to which an address belongs, and arenas of addresses, each used once. No memory is
// mapped past the end of an allocation, or after it has been freed, so that such accesses fault.
// Not here: when a free takes effect (runtime_memory.cpp).
// CUDA Runtime API, memory management. Electric Fence (Perens 1987) is the model of arenas; under
// AddressSanitizer its own allocator takes over.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace plangrad::cuda::emulator {

constexpr std::size_t arena_bytes = std::size_t{64} << 30;  ///< bytes of addresses

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

constexpr int pinned_host = -1;  ///< stands in place of a device's number

struct Allocation {
  int device = 0;  ///< or pinned_host
  int number = 0;  ///< counted from 1, over all devices
  std::byte* start = nullptr;
  std::size_t bytes = 0;
  bool freed = false;
};

/// Allocates memory; null if the device would then hold more than its settings allow.
void* allocate(int device, std::size_t bytes);
/// Frees memory that allocate returned. False, with a report, if it is not allocated (any more), or
/// if something was written just before or behind it.
bool release(void* start);
/// Returns the live allocation that the address lies in.
std::optional<Allocation> find_allocation(const void* address);

/// Whether the address is, was or may become memory of a device, or pinned.
bool is_device_address(const void* address);
/// Describes an address: "0x7f..., 12 bytes past the end of allocation 3 (device 0, 400 bytes)".
std::string describe_address(const void* address);

}  // namespace plangrad::cuda::emulator
