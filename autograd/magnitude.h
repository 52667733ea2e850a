// The k-th largest magnitude, by radix select: the search that CPU and GPU share.
// Not here: counting (autograd/cpu/sparse_values.cpp, cuda/backend/magnitude.cu).
// Chapter 10; Alabi et al. 2012, "Fast k-selection algorithms for graphics processing units".
#pragma once

#include <bit>
#include <cstdint>
#include <limits>

#include "autograd/backend.h"

namespace paragrad::autograd {

/// |x| as a whole number of 31 bits: floats of one sign are ordered as their bits are.
using MagnitudeKey = std::uint32_t;
inline constexpr MagnitudeKey infinity_key = 0x7f800000;

PG_HOST_DEVICE inline MagnitudeKey key_of(float x) {
  return std::bit_cast<MagnitudeKey>(x) & 0x7fffffff;
}

/// A part of a key, and what has been found of those above it.
struct KeyDigit {
  int shift, width;  ///< `width` bits above the lowest `shift`
  MagnitudeKey found = 0;

  /// Whether the key has what was found.
  PG_HOST_DEVICE bool matches(MagnitudeKey key) const {
    return ((key ^ found) & (~MagnitudeKey{0} << (shift + width))) == 0;
  }
  PG_HOST_DEVICE MagnitudeKey of(MagnitudeKey key) const {
    return key >> shift & ((MagnitudeKey{1} << width) - 1);
  }
};
/// The most values that a digit has.
inline constexpr int digit_values = 2048;

/// Finds the k-th largest key digit by digit. count(digit) tells how many of the keys that match
/// have each value of the digit, as a list of digit_values numbers.
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

}  // namespace paragrad::autograd
