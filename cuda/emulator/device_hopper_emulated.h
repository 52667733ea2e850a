// The part of device_hopper.h that the emulator has: products of a matrix in registers and one in
// shared memory. They are computed at once: a program that does not wait for them is not found out.
// Not here: TMA, and its barriers.
// PTX ISA, wgmma (matrix descriptors, canonical layouts).
#pragma once

#include "cuda/emulator/device_emulated.h"

namespace plangrad::cuda {

/// A matrix in shared memory, with swizzled rows of 128 bytes; row 8 is `eight` bytes after row 0.
struct SharedMatrix {
  const void* first;
  unsigned eight;
};
inline SharedMatrix describe(const void* first, unsigned, unsigned eight) { return {first, eight}; }

inline void fence_shared() {}
inline void wgmma_fence() {}
inline void wgmma_commit() {}
template <int N>
void wgmma_wait() {}
template <int N>
void pin(float (&)[N][4]) {}

template <bool by_columns>
void wgmma_64x64x16(float (&c)[8][4], const unsigned (&a)[4], SharedMatrix b,
                    std::source_location where = std::source_location::current());

}  // namespace plangrad::cuda
