// Hopper's own instructions, which nvcc has for sm_90a only: products by four warps of matrices in
// shared memory.
// Not here: the emulator's products (cuda/emulator/device_emulated.h); TMA, which only a kernel to
// read uses (tutorials/kernels/tma.h).
// PTX ISA: wgmma (matrix descriptors, canonical layouts).
#pragma once

#if defined(CUDA_EMULATOR)
#include "cuda/emulator/device_emulated.h"
#else
#include <cuda_runtime.h>

#include <cstdint>

#include "cuda/launch/device.h"

namespace plangrad::cuda {

__device__ inline unsigned shared_address(const void* shared) {
  return static_cast<unsigned>(__cvta_generic_to_shared(shared));
}

/// Shows what the thread has written to shared memory to TMA and to wgmma.
__device__ inline void fence_shared() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}

// [snippet descriptor]
/// Describes a matrix in shared memory to wgmma: rows of 64 elements of 16 bits (128 bytes), whose
/// 16-byte pieces are swizzled, as by TMA: piece j of row r is at place j ^ (r % 8). `eight` is the
/// distance of row 8 from row 0, in bytes, and `columns` that of column 64 from column 0, which
/// only matrices with their rows along k use.
__device__ inline std::uint64_t describe(const void* first, unsigned columns, unsigned eight) {
  return std::uint64_t{(shared_address(first) & 0x3FFFF) >> 4} | std::uint64_t{columns >> 4} << 16 |
         std::uint64_t{eight >> 4} << 32 | std::uint64_t{1} << 62;
}
// [end snippet]

/// Stands before the first product, and wherever other instructions have written its registers.
__device__ inline void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
/// Makes a group of the products since the last one.
__device__ inline void wgmma_commit() {
  asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory");
}
/// Waits until all but the last N groups have been computed.
template <int N>
__device__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

#define PG_FOUR(i) "+f"(c[i][0]), "+f"(c[i][1]), "+f"(c[i][2]), "+f"(c[i][3])

/// c += a b, by four warps, each of which has 16 rows of a in registers, as mma_16816 has them.
///                                             a (64,16) and b (16,64) in bf16, c (64,64) in f32
/// Warp w has rows 16 w to 16 w + 15; its lanes have columns 8 i to 8 i + 7 in c[i], as mma_16816
/// lays them out.
/// If `by_columns`, b lies in shared memory as its transpose (64,16), else as it is.
template <bool by_columns>
__device__ void wgmma_64x64x16(float (&c)[8][4], const unsigned (&a)[4], std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
      "{%32, %33, %34, %35}, %36, 1, 1, 1, %37;"  // added to c; not negated
      : PG_FOUR(0), PG_FOUR(1), PG_FOUR(2), PG_FOUR(3), PG_FOUR(4), PG_FOUR(5), PG_FOUR(6),
        PG_FOUR(7)
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "n"(by_columns ? 0 : 1));
}

/// Lets the compiler read and write registers of products only before or after this place.
template <int N>
__device__ void pin(float (&c)[N][4]) {
  PG_UNROLL
  for (int i = 0; i < N; ++i) asm volatile("" : PG_FOUR(i)::"memory");
}

#undef PG_FOUR

}  // namespace plangrad::cuda
#endif
