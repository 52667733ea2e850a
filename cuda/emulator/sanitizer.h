// The few calls of AddressSanitizer that the emulator makes; they do nothing in builds without it.
// Not here: the switch between stacks (fiber.cpp), of which AddressSanitizer is told, too.
// <sanitizer/asan_interface.h>
#pragma once

#include <cstddef>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace plangrad::cuda::emulator {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool has_address_sanitizer = true;
inline void poison(const void* start, std::size_t bytes) {
  __asan_poison_memory_region(start, bytes);
}
inline void unpoison(const void* start, std::size_t bytes) {
  __asan_unpoison_memory_region(start, bytes);
}
#else
constexpr bool has_address_sanitizer = false;
inline void poison(const void*, std::size_t) {}
inline void unpoison(const void*, std::size_t) {}
#endif

}  // namespace plangrad::cuda::emulator
