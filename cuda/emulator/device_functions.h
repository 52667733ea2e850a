// Functions that kernels call besides those of C++: atomics, bits, and some mathematics.
// Not here: fast approximations (__expf and others), whose results a host compiler doesn't have.
// CUDA C++ Programming Guide, atomic functions; CUDA Math API.
#pragma once

#include <atomic>
#include <bit>
#include <cmath>
#include <cstdint>

// Overloads, not templates: an atomic of a type that CUDA lacks, such as size_t, is ambiguous.
#define PLANGRAD_ATOMIC(name, type, operation) \
  inline type name(type* address, type value) { return std::atomic_ref<type>(*address).operation; }
PLANGRAD_ATOMIC(atomicAdd, int, fetch_add(value))
PLANGRAD_ATOMIC(atomicAdd, unsigned, fetch_add(value))
PLANGRAD_ATOMIC(atomicAdd, unsigned long long, fetch_add(value))
PLANGRAD_ATOMIC(atomicAdd, float, fetch_add(value))
PLANGRAD_ATOMIC(atomicAdd, double, fetch_add(value))
PLANGRAD_ATOMIC(atomicOr, int, fetch_or(value))
PLANGRAD_ATOMIC(atomicOr, unsigned, fetch_or(value))
PLANGRAD_ATOMIC(atomicExch, int, exchange(value))
PLANGRAD_ATOMIC(atomicExch, unsigned, exchange(value))
PLANGRAD_ATOMIC(atomicExch, float, exchange(value))
#undef PLANGRAD_ATOMIC

#define PLANGRAD_ATOMIC_IF(name, type, better)                              \
  inline type name(type* address, type value) {                             \
    std::atomic_ref<type> target(*address);                                 \
    type old = target;                                                      \
    while (value better old && !target.compare_exchange_weak(old, value)) { \
    }                                                                       \
    return old;                                                             \
  }
PLANGRAD_ATOMIC_IF(atomicMax, int, >)
PLANGRAD_ATOMIC_IF(atomicMax, unsigned, >)
PLANGRAD_ATOMIC_IF(atomicMax, unsigned long long, >)
PLANGRAD_ATOMIC_IF(atomicMin, int, <)
PLANGRAD_ATOMIC_IF(atomicMin, unsigned, <)
PLANGRAD_ATOMIC_IF(atomicMin, unsigned long long, <)
#undef PLANGRAD_ATOMIC_IF

#define PLANGRAD_ATOMIC_CAS(type)                                               \
  inline type atomicCAS(type* address, type expected, type desired) {           \
    std::atomic_ref<type>(*address).compare_exchange_strong(expected, desired); \
    return expected;                                                            \
  }
PLANGRAD_ATOMIC_CAS(int)
PLANGRAD_ATOMIC_CAS(unsigned)
PLANGRAD_ATOMIC_CAS(unsigned long long)
#undef PLANGRAD_ATOMIC_CAS

#define PLANGRAD_MIN_MAX(type)                              \
  inline type min(type a, type b) { return b < a ? b : a; } \
  inline type max(type a, type b) { return a < b ? b : a; }
PLANGRAD_MIN_MAX(int)
PLANGRAD_MIN_MAX(unsigned)
PLANGRAD_MIN_MAX(long)
PLANGRAD_MIN_MAX(unsigned long)
PLANGRAD_MIN_MAX(long long)
PLANGRAD_MIN_MAX(unsigned long long)
#undef PLANGRAD_MIN_MAX
// min and max of floats return the number where one operand is NaN.
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }

/// Multiplies; not fused with an addition by nvcc, nor by a host compiler with -ffp-contract=off.
inline float __fmul_rn(float a, float b) { return a * b; }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline int __popc(unsigned x) { return std::popcount(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return std::uint64_t{a} * b >> 32; }
