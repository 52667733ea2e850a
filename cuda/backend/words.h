// dispatch_words: how many bytes a kernel that only moves them can take at once.
// Not here: such kernels.
// CUDA C++ Programming Guide, device memory accesses.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace paragrad::cuda {

/// Calls `kernel.template operator()<Word>()` with the longest word, of 1 to 16 bytes, that divides
/// all of these addresses and numbers of bytes.
template <class Kernel, class... Numbers>
void dispatch_words(Kernel&& kernel, Numbers... numbers) {
  const std::uint64_t bits = (std::uint64_t(numbers) | ... | 0);
  if (bits % 16 == 0) return kernel.template operator()<uint4>();
  if (bits % 8 == 0) return kernel.template operator()<uint2>();
  if (bits % 4 == 0) return kernel.template operator()<std::uint32_t>();
  if (bits % 2 == 0) return kernel.template operator()<std::uint16_t>();
  return kernel.template operator()<std::uint8_t>();
}

inline std::uint64_t address_of(const std::byte* data) {
  return reinterpret_cast<std::uintptr_t>(data);
}

}  // namespace paragrad::cuda
