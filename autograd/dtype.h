// DType: the element types of a tensor, and bf16, the 16-bit one that the host compiler lacks.
// Not here: arithmetic in bf16. Kernels widen to float, compute, and round once. Chapter 01.
#pragma once

#include <bit>
#include <cstdint>
#include <ostream>
#include <type_traits>

#include "autograd/error.h"

// Marks functions that kernels call, too: nvcc compiles them for host and device.
#if defined(__CUDACC__)
#define PG_HOST_DEVICE __host__ __device__
#else
#define PG_HOST_DEVICE
#endif

namespace plangrad::autograd {

/// f32 and bf16 train everywhere, f64 checks gradients on the CPU, i32 holds token ids and labels,
/// u8 encoded values.
enum class DType { f32, bf16, f64, i32, u8 };

/// The upper half of a float: 8 bits of exponent, 7 of mantissa.
struct bf16 {
  std::uint16_t bits = 0;

  bf16() = default;
  PG_HOST_DEVICE bf16(float x) : bits(round(x)) {}
  /// Assigns without a temporary bf16, because loops with one are not vectorised.
  bf16& operator=(float x) {
    bits = round(x);
    return *this;
  }
  PG_HOST_DEVICE operator float() const {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
  }

  /// Rounds to nearest, ties to even; NaN stays NaN.
  PG_HOST_DEVICE static std::uint16_t round(float x) {
    std::uint32_t u = std::bit_cast<std::uint32_t>(x);
    std::uint32_t rounded = (u + 0x7fff + ((u >> 16) & 1)) >> 16;
    return static_cast<std::uint16_t>(x != x ? (u >> 16) | 0x40 : rounded);
  }
};

/// Bytes of one element.
constexpr std::int64_t size_of(DType dtype) {
  constexpr int sizes[] = {4, 2, 8, 4, 1};
  return sizes[static_cast<int>(dtype)];
}

constexpr const char* name_of(DType dtype) {
  constexpr const char* names[] = {"f32", "bf16", "f64", "i32", "u8"};
  return names[static_cast<int>(dtype)];
}

inline std::ostream& operator<<(std::ostream& out, DType dtype) { return out << name_of(dtype); }

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> : std::integral_constant<DType, DType::f32> {};
template <>
struct DTypeOf<bf16> : std::integral_constant<DType, DType::bf16> {};
template <>
struct DTypeOf<double> : std::integral_constant<DType, DType::f64> {};
template <>
struct DTypeOf<std::int32_t> : std::integral_constant<DType, DType::i32> {};
template <>
struct DTypeOf<std::uint8_t> : std::integral_constant<DType, DType::u8> {};

/// The type that kernels compute in: float for f32 and bf16, double for f64.
template <class T>
using Compute = std::conditional_t<std::is_same_v<T, double>, double, float>;

/// Calls `kernel.template operator()<T>()` with the floating-point C++ type of `dtype`.
template <class Kernel>
auto dispatch(DType dtype, Kernel&& kernel) {
  switch (dtype) {
    case DType::f32: return kernel.template operator()<float>();
    case DType::bf16: return kernel.template operator()<bf16>();
    case DType::f64: return kernel.template operator()<double>();
    default: throw Error(text("this operation needs a floating-point tensor, not ", dtype));
  }
}

/// Calls `kernel.template operator()<n>()` with n from `first` to `last`, known at run time only.
template <int first, int last, class Kernel>
void dispatch(int n, Kernel&& kernel) {
  if constexpr (first < last)
    if (n != first) return dispatch<first + 1, last>(n, kernel);
  kernel.template operator()<first>();
}

}  // namespace plangrad::autograd
