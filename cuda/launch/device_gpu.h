// The parts of device.h for nvcc only: inline PTX, among it Hopper's products by four warps of
// matrices in shared memory, and shared memory whose size is a parameter of the launch.
// Not here: their twins for the emulator (cuda/emulator/device_emulated.h); TMA, which only a
// kernel to read uses (tutorials/kernels/tma.h).
// PTX ISA, instruction set; wgmma (matrix descriptors, canonical layouts).
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace plangrad::cuda {

/// The block's dynamic shared memory, 16-byte aligned.
template <class T>
__device__ T* dynamic_shared() {
  extern __shared__ __align__(16) unsigned char plangrad_dynamic_shared[];
  return reinterpret_cast<T*>(plangrad_dynamic_shared);
}

/// The sum over the lanes of a warp, in every lane: 5 steps of a butterfly. With fewer `lanes`, a
/// power of two, the sum over groups of this many neighbours.
template <int lanes = 32, class T>
__device__ T warp_sum(T value) {
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value += __shfl_xor_sync(~0u, value, offset);
  return value;
}

template <int lanes = 32, class T>
__device__ T warp_max(T value) {
#pragma unroll
  for (int offset = lanes / 2; offset > 0; offset /= 2)
    value = ::max(value, __shfl_xor_sync(~0u, value, offset));
  return value;
}

/// 2^x, off by at most 2^-22 of itself; 0 below 2^-126.
__device__ inline float fast_exp2(float x) {
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
}
/// 1 / x for x from 2^-126 to 2^126, off by at most 2^-23 of itself: an approximation, and a step
/// of Newton's method.
__device__ inline float fast_inverse(float x) {
  float inverse;
  asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(x));
  return fmaf(inverse, fmaf(-x, inverse, 1), inverse);
}

/// Loads sizeof(V) bytes at once; the address must be a multiple of sizeof(V).
template <class V, class T>
__device__ V load(const T* address) {
  return *reinterpret_cast<const V*>(address);
}
/// Stores V at once, by PTX if it has several elements: nvcc 13 splits some stores of structures.
template <class V, class T>
__device__ void store(T* address, V value) {
  [[maybe_unused]] const auto* word = reinterpret_cast<const unsigned*>(&value);
  if constexpr (sizeof(V) == 16)
    asm volatile("st.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(address), "r"(word[0]), "r"(word[1]),
                 "r"(word[2]), "r"(word[3])
                 : "memory");
  else if constexpr (sizeof(V) == 8)
    asm volatile("st.v2.u32 [%0], {%1, %2};" ::"l"(address), "r"(word[0]), "r"(word[1]) : "memory");
  else
    *reinterpret_cast<V*>(address) = value;
}

/// Starts a copy of 16 bytes from global to shared memory; both addresses are multiples of 16.
__device__ inline void cp_async_16(void* shared, const void* global) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(address), "l"(global) : "memory");
}
/// Starts a copy as cp_async_16 does if the 16 bytes exist; else writes zeros, and reads nothing.
__device__ inline void cp_async_16_or_zeros(void* shared, const void* global, bool exists) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global),
               "r"(exists ? 16 : 0)
               : "memory");
}
/// Makes a group of the copies that this thread has started since its last group.
__device__ inline void cp_async_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
/// Waits until all but this thread's last N groups have arrived; others see them after a barrier.
template <int N>
__device__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

/// Loads four 8 x 8 matrices of 16-bit numbers from shared memory: lane 8 i + r gives the address
/// of row r of matrix i. In fragment[i], lane 4 r + c receives columns 2 c (low half) and 2 c + 1
/// of row r.
__device__ inline void ldmatrix_x4(unsigned (&fragment)[4], const void* row) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(address)
               : "memory");
}
/// Loads as ldmatrix_x4 does, and transposes each matrix.
__device__ inline void ldmatrix_x4_transposed(unsigned (&fragment)[4], const void* row) {
  unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(fragment[0]), "=r"(fragment[1]), "=r"(fragment[2]), "=r"(fragment[3])
               : "r"(address)
               : "memory");
}

// [snippet mma]
/// c += a b, by a warp.                            a (16,16) and b (16,8) in bf16, c (16,8) in f32
/// With g = lane / 4 and t = 2 (lane % 4); t means a pair of 16-bit numbers, at t and t + 1:
///   a[0] row g, columns t;   a[1] row g + 8, columns t;   a[2], a[3] these rows, columns t + 8
///   b[0] rows t, column g;   b[1] rows t + 8, column g
///   c[0], c[1] row g, columns t and t + 1;   c[2], c[3] these columns of row g + 8
__device__ inline void mma_16816(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2]) {
  // [end snippet]
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// ---- Hopper's own instructions, which nvcc has for sm_90a only ----

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
#pragma unroll
  for (int i = 0; i < N; ++i) asm volatile("" : PG_FOUR(i)::"memory");
}

#undef PG_FOUR

}  // namespace plangrad::cuda
