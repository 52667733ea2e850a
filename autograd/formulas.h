// Formulas that CPU and GPU share: functions of one number, and their gradients; the maximum of a
// window; the levels of a bucket, which both ends of a message use; the k-th largest magnitude; and
// items of a message.
// Not here: exp and sigmoid, which each processor computes in its own way, and loops. A CPU's loop
// is vectorised only where the compiler inlines the formula: that is 5 to 10 times faster.
// Chapters 03 and 10; Hendrycks and Gimpel 2016 for GELU; Markov et al. 2022, "CGX"; Alabi et al.
// 2012 (radix select).
#pragma once

#include <algorithm>
#include <cstring>
#include <limits>

#include "autograd/backend.h"

namespace plangrad::autograd {

// GELU in GPT-2's form. With u = sqrt(2/pi) (x + 0.044715 x^3):  (1 + tanh u) / 2 = sigmoid(2u).
template <class C>
inline constexpr C gelu_scale = C(2 * 0.79788456080286535588);

template <class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gelu_sigmoid(C x) {
  return Math::sigmoid(gelu_scale<C> * x * (1 + C(0.044715) * x * x));
}

template <class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gelu(C x) {
  return x * gelu_sigmoid<Math>(x);
}

/// d gelu(x) / dx
template <class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gelu_slope(C x) {
  const C s = gelu_sigmoid<Math>(x);
  return s + x * s * (1 - s) * gelu_scale<C> * (1 + 3 * C(0.044715) * x * x);
}

template <Unary op, class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C value_of(C x) {
  if constexpr (op == Unary::negate) return -x;
  if constexpr (op == Unary::exp) return Math::exp(x);
  if constexpr (op == Unary::log) return std::log(x);
  if constexpr (op == Unary::sqrt) return std::sqrt(x);
  if constexpr (op == Unary::tanh) return std::tanh(x);
  if constexpr (op == Unary::relu) return x < 0 ? C(0) : x;
  if constexpr (op == Unary::gelu) return gelu<Math>(x);
}

/// Whether op's gradient is computed from the result; if not, from the input.
constexpr bool reads_result(Unary op) {
  return op == Unary::exp || op == Unary::sqrt || op == Unary::tanh;
}

/// dx, from the result y or the input x, and the gradient g of the result.
template <Unary op, class Math, class C>
[[gnu::always_inline]] PG_HOST_DEVICE inline C gradient_of(C x_or_y, C g) {
  if constexpr (op == Unary::negate) return -g;
  if constexpr (op == Unary::exp) return g * x_or_y;
  if constexpr (op == Unary::log) return g / x_or_y;
  if constexpr (op == Unary::sqrt) return g / (2 * x_or_y);
  if constexpr (op == Unary::tanh) return g * (1 - x_or_y * x_or_y);
  if constexpr (op == Unary::relu) return x_or_y > 0 ? g : C(0);
  if constexpr (op == Unary::gelu) return g * gelu_slope<Math>(x_or_y);
}

/// Calls `kernel.template operator()<op>()`.
template <class Kernel>
void dispatch(Unary op, Kernel&& kernel) {
  dispatch<0, static_cast<int>(Unary::gelu)>(
      static_cast<int>(op), [&]<int n>() { kernel.template operator()<static_cast<Unary>(n)>(); });
}

/// Planes (height,width), a window that slides over them, and the sizes of the results.
struct SlidingPlanes {
  int height, width, out_height, out_width;
  Window window;

  SlidingPlanes(const Tensor& x, const Tensor& y, Window window)
      : height(static_cast<int>(x.size(2))),
        width(static_cast<int>(x.size(3))),
        out_height(static_cast<int>(y.size(2))),
        out_width(static_cast<int>(y.size(3))),
        window(window) {}

  /// The place in a plane of the largest value(place) that window o reads. Ties go to the first
  /// one; if there are NaNs, the last one wins.
  template <class Value>
  PG_HOST_DEVICE int place_of_max(int o, Value value) const {
    const int top = o / out_width * window.stride - window.padding;
    const int left = o % out_width * window.stride - window.padding;
    const int bottom = std::min(top + window.height, height);
    const int right = std::min(left + window.width, width);
    decltype(value(0)) most{};
    int best = -1;
    for (int i = std::max(top, 0); i < bottom; ++i)
      for (int j = std::max(left, 0); j < right; ++j) {
        const auto found = value(i * width + j);
        if (best >= 0 && !(found > most) && found == found) continue;
        most = found;
        best = i * width + j;
      }
    return best;
  }
};

// ---- Codecs

/// Calls `kernel.template operator()<T>()` with the C++ type of values that codecs encode.
template <class Kernel>
auto dispatch_encoded(DType dtype, Kernel&& kernel) {
  PG_CHECK(dtype == DType::f32 || dtype == DType::bf16, "codecs act on f32 and bf16, not ", dtype);
  return dtype == DType::f32 ? kernel.template operator()<float>()
                             : kernel.template operator()<bf16>();
}

/// Item i of an array of T, which may begin at any byte of a message.
template <class T>
PG_HOST_DEVICE T read_item(const void* array, std::int64_t i) {
  T item;
  memcpy(&item, static_cast<const unsigned char*>(array) + i * sizeof item, sizeof item);
  return item;
}
template <class T>
PG_HOST_DEVICE void write_item(void* array, std::int64_t i, T item) {
  memcpy(static_cast<unsigned char*>(array) + i * sizeof item, &item, sizeof item);
}

/// The largest finite value of T.
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

/// The levels of a bucket, min + unit * level, in the form that a message holds.
template <class T>
struct Levels {
  T unit{}, min{};
};

/// Makes levels from `low` to `high`. The unit is rounded up, so that they reach `high`.
template <class T>
PG_HOST_DEVICE Levels<T> levels_between(float low, float high, int steps) {
  double unit = (static_cast<double>(high) - low) / steps;
  if (unit <= largest<T>) return {round_up<T>(unit), T(low)};
  // The range of one step overflows: take the largest unit, centred on the middle.
  return {T(largest<T>), T(low / 2 + high / 2 - largest<T> / 2)};
}

/// The levels of a bucket with a value that is infinite or NaN: all decodes to NaN.
template <class T>
PG_HOST_DEVICE Levels<T> no_levels() {
  const T nan(std::numeric_limits<float>::quiet_NaN());
  return {nan, nan};
}

/// A bucket's levels in f32, as encoding and decoding use them. If levels are so far apart that
/// differences would overflow, everything is computed on a quarter of the values.
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

/// |x| as a whole number of 31 bits: floats of one sign are ordered as their bits are.
using MagnitudeKey = std::uint32_t;
inline constexpr MagnitudeKey infinity_key = 0x7f800000;

PG_HOST_DEVICE inline MagnitudeKey key_of(float x) {
  return std::bit_cast<MagnitudeKey>(x) & 0x7fffffff;
}

/// A group of a key's bits, and the bits above it that the search has already found.
struct KeyDigit {
  int shift, width;  ///< `width` bits above the lowest `shift`
  MagnitudeKey found = 0;

  /// Whether the key has the bits that were found.
  PG_HOST_DEVICE bool matches(MagnitudeKey key) const {
    return ((key ^ found) & (~MagnitudeKey{0} << (shift + width))) == 0;
  }
  PG_HOST_DEVICE MagnitudeKey of(MagnitudeKey key) const {
    return key >> shift & ((MagnitudeKey{1} << width) - 1);
  }
};
/// The largest number of values that a digit can have.
inline constexpr int digit_values = 2048;

/// Finds the k-th largest key digit by digit. count(digit) returns, for each of the digit_values
/// values of the digit, how many of the matching keys have it.
template <class Count>
Magnitude find_magnitude(std::int64_t k, Count&& count) {
  MagnitudeKey found = 0;
  for (KeyDigit digit : {KeyDigit{20, 11}, KeyDigit{10, 10}, KeyDigit{0, 10}}) {
    digit.found = found;
    const auto& counted = count(digit);
    if (digit.shift == 20)
      for (int value = infinity_key >> digit.shift; value < digit_values; ++value)
        if (counted[value]) return {std::numeric_limits<double>::infinity(), 0};
    MagnitudeKey value = (MagnitudeKey{1} << digit.width) - 1;
    for (; k > static_cast<std::int64_t>(counted[value]); --value) k -= counted[value];
    found |= value << digit.shift;
  }
  return {std::bit_cast<float>(found), k};
}

}  // namespace plangrad::autograd
