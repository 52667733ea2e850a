// Hopper's TMA, barriers that count the bytes that it copies, and products by four warps of two
// matrices in shared memory, which nvcc has for sm_90a only.
// Not here: products of a matrix in registers (cuda/launch/device_gpu.h).
// PTX ISA: cp.async.bulk.tensor, mbarrier, wgmma.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/launch/device.h"

namespace plangrad::cuda::kernels {

/// A barrier in shared memory. Its phase ends when one thread has arrived and all bytes that this
/// thread expects have. Phases alternate between parity 0, the first one, and 1.
struct CopyBarrier {
  std::uint64_t state;

  __device__ void init() {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], 1;" ::"r"(shared_address(this)) : "memory");
  }
  __device__ void expect(unsigned bytes) {
    asm volatile(
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
        "r"(bytes)
        : "memory");
  }
  /// Waits for the end of a phase of this parity.
  __device__ void wait(unsigned parity) {
    unsigned done = 0;
    while (!done)
      asm volatile(
          "{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [%1], %2; "
          "selp.u32 %0, 1, 0, p; }"
          : "=r"(done)
          : "r"(shared_address(this)), "r"(parity)
          : "memory");
  }
};

/// Starts to copy the box of the map that begins at (row,column), with zeros outside of the matrix,
/// to a multiple of 1024 in shared memory. One thread does it for the block.
__device__ inline void copy_box(void* shared, const CUtensorMap& map, int row, int column,
                                CopyBarrier& barrier) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(shared)),
      "l"(&map), "r"(column), "r"(row), "r"(shared_address(&barrier))
      : "memory");
}

#define PG_SUMS_8(i)                                                                          \
  "+f"(c[i]), "+f"(c[i + 1]), "+f"(c[i + 2]), "+f"(c[i + 3]), "+f"(c[i + 4]), "+f"(c[i + 5]), \
      "+f"(c[i + 6]), "+f"(c[i + 7])

/// c += a b, by four warps.                  a (64,16) row-major, b (16,128) row-major, in bf16
/// Warp w has rows 16 w to 16 w + 15; its lanes have columns 8 i to 8 i + 7 in c[4 i] to
/// c[4 i + 3], as mma_16816 lays them out.
__device__ inline void wgmma_64x128x16(float (&c)[64], std::uint64_t a, std::uint64_t b) {
  asm volatile(
      "wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 "
      "{%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
      "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
      "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
      "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
      "%64, %65, 1, 1, 1, 0, 1;"  // added to c; not negated; a as it is, b transposed
      : PG_SUMS_8(0), PG_SUMS_8(8), PG_SUMS_8(16), PG_SUMS_8(24), PG_SUMS_8(32), PG_SUMS_8(40),
        PG_SUMS_8(48), PG_SUMS_8(56)
      : "l"(a), "l"(b));
}

#undef PG_SUMS_8

}  // namespace plangrad::cuda::kernels
