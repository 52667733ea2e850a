// The levels of a bucket: what a message says of them, and how both ends compute with it.
// Not here: loops over values (autograd/cpu/quantize.cpp, cuda/backend/quantize.cu).
// Chapter 10; Markov et al. 2022, "CGX".
#pragma once

#include <bit>
#include <limits>
#include <type_traits>

#include "autograd/dtype.h"

namespace paragrad::autograd {

/// The largest finite value.
template <class T>
inline constexpr float largest = std::numeric_limits<float>::max();
template <>
inline constexpr float largest<bf16> = 0x1.fep127f;

/// The least T that is not below x.                                      0 <= x <= largest<T>
template <class T>
PG_HOST_DEVICE T round_up(double x) {
  using Bits = std::conditional_t<sizeof(T) == 2, std::uint16_t, std::uint32_t>;
  T y = static_cast<float>(x);
  return static_cast<float>(y) < x ? std::bit_cast<T>(static_cast<Bits>(std::bit_cast<Bits>(y) + 1))
                                   : y;
}

/// The levels of a bucket, min + unit * level, as they stand in the message.
template <class T>
struct Levels {
  T unit{}, min{};
};

/// Levels from `low` to `high`. The unit is rounded up, so that they reach `high`.
template <class T>
PG_HOST_DEVICE Levels<T> levels_between(float low, float high, int steps) {
  double unit = (static_cast<double>(high) - low) / steps;
  if (unit <= largest<T>) return {round_up<T>(unit), T(low)};
  // One step over more than the largest number: as far as a unit goes, about the middle.
  return {T(largest<T>), T(low / 2 + high / 2 - largest<T> / 2)};
}

/// The same in f32, as both directions use it. Where levels span so much that differences would
/// overflow, everything is computed on a quarter of the values.
struct Scale {
  float shrink, grow, min, unit, inverse;

  template <class T>
  PG_HOST_DEVICE explicit Scale(Levels<T> levels) {
    bool huge = levels.unit > 0x1p117f;
    shrink = huge ? 0.25f : 1;
    grow = huge ? 4 : 1;
    min = shrink * levels.min;
    unit = shrink * levels.unit;
    inverse = levels.unit < 1e-10f ? 0 : 1 / unit;
  }
};

}  // namespace paragrad::autograd
