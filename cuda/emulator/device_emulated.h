// The parts of device.h for the emulator: the same results as device_gpu.h's, bit for bit, but for
// fast functions, which are exact here. Hopper's products, of a matrix in registers and one in
// shared memory, are computed at once, so a program that does not wait for them is not found out.
// Not here: definitions that both compilers share (cuda/launch/device.h); TMA, and its barriers.
// PTX ISA, instruction set; wgmma (matrix descriptors, canonical layouts).
#pragma once

#include <cuda_runtime.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <source_location>

namespace plangrad::cuda {

namespace emulator {

/// Combines the values of neighbouring lanes in the order of a butterfly of shuffles. The first
/// lane's result is every lane's, because the operation is commutative.
template <int lanes, class T, class Combine>
T butterfly(const char* name, std::source_location where, T value, Combine) {
  auto carry_out = [](void* const* records) {
    auto lane = [&](int i) -> T& { return *static_cast<T*>(records[i]); };
    for (int first = 0; first < warpSize; first += lanes) {
      for (int offset = lanes / 2; offset > 0; offset /= 2)
        for (int i = first; i < first + offset; ++i) lane(i) = Combine()(lane(i), lane(i + offset));
      for (int i = 1; i < lanes; ++i) lane(first + i) = lane(first);
    }
  };
  constexpr int shuffles = std::bit_width(unsigned{lanes}) - 1;
  warp_operation(name, where, ~0u, &value, carry_out, shuffles);
  return value;
}

/// Reports an address that is no multiple of a vector's size.
void check_alignment(const char* name, std::source_location where, const void* address,
                     std::size_t bytes);

/// Carries out all but the thread's last `kept` groups of copies.
void wait_for_copies(int kept);
void load_matrices(const char* name, std::source_location where, unsigned (&fragment)[4],
                   const void* row, bool transposed);

}  // namespace emulator

template <class T>
T* dynamic_shared() {
  return reinterpret_cast<T*>(emulator::dynamic_shared_memory);
}

template <int lanes = 32, class T>
T warp_sum(T value, std::source_location where = std::source_location::current()) {
  return emulator::butterfly<lanes>("warp_sum", where, value, [](T a, T b) { return a + b; });
}

template <int lanes = 32, class T>
T warp_max(T value, std::source_location where = std::source_location::current()) {
  return emulator::butterfly<lanes>("warp_max", where, value, [](T a, T b) { return ::max(a, b); });
}

inline float fast_exp2(float x) { return std::exp2(x); }
inline float fast_inverse(float x) { return 1 / x; }

// Each call of these two is an instruction of its own, also for those who count instructions.
template <class V, class T>
__forceinline__ V load(const T* address,
                       std::source_location where = std::source_location::current()) {
  emulator::check_alignment("load", where, address, sizeof(V));
  V value;
  std::memcpy(&value, address, sizeof(V));
  return value;
}
template <class V, class T>
__forceinline__ void store(T* address, V value,
                           std::source_location where = std::source_location::current()) {
  emulator::check_alignment("store", where, address, sizeof(V));
  std::memcpy(address, &value, sizeof(V));
}

/// Copies only when a thread waits for them, so a forgotten wait shows the values from before.
void cp_async_16(void* shared, const void* global,
                 std::source_location where = std::source_location::current());
void cp_async_16_or_zeros(void* shared, const void* global, bool exists,
                          std::source_location where = std::source_location::current());
void cp_async_commit();
template <int N>
void cp_async_wait() {
  emulator::wait_for_copies(N);
}

inline void ldmatrix_x4(unsigned (&fragment)[4], const void* row,
                        std::source_location where = std::source_location::current()) {
  emulator::load_matrices("ldmatrix_x4", where, fragment, row, false);
}
inline void ldmatrix_x4_transposed(unsigned (&fragment)[4], const void* row,
                                   std::source_location where = std::source_location::current()) {
  emulator::load_matrices("ldmatrix_x4_transposed", where, fragment, row, true);
}
void mma_16816(float (&c)[4], const unsigned (&a)[4], const unsigned (&b)[2],
               std::source_location where = std::source_location::current());

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
