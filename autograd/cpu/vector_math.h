// exp and random numbers, written so that the compiler turns loops over them into vector code.
// Not here: calls of the C library, which stay scalar; double uses them, to be exact. Chapter 03.
#pragma once

#include <limits>

#include "autograd/random.h"

namespace plangrad::autograd::cpu {

inline double vector_exp(double x) { return std::exp(x); }

/// e^x within 2 units in the last place; 0 below the smallest normal number.
/// e^x = 2^n e^r with n = round(x / ln 2), and e^r by its Taylor polynomial on |r| <= ln(2)/2.
[[gnu::always_inline]] inline float vector_exp(float x) {
  float inside = x > 88.72f ? 88.72f : x < -87.0f ? -87.0f : x;
  constexpr float round = 12582912.0f;  // 1.5 * 2^23: adding it leaves no fraction bits
  float shifted = inside * 1.44269504f + round;
  float n = shifted - round;
  float r = (inside - n * 0.693145752f) - n * 1.42860677e-6f;  // ln 2 in two parts
  float p = 1.0f / 5040;
  p = p * r + 1.0f / 720;
  p = p * r + 1.0f / 120;
  p = p * r + 1.0f / 24;
  p = p * r + 1.0f / 6;
  p = p * r + 0.5f;
  p = p * r + 1.0f;
  p = p * r + 1.0f;
  std::int32_t exponent = std::bit_cast<std::int32_t>(shifted) << 23;
  float y = std::bit_cast<float>(std::bit_cast<std::int32_t>(p) + exponent);
  y = x > 88.72f ? std::numeric_limits<float>::infinity() : y;
  y = x < -87.33f ? 0.0f : y;
  return x != x ? x : y;
}

/// Functions of autograd/formulas.h on the CPU.
struct Math {
  template <class C>
  [[gnu::always_inline]] static C exp(C x) {
    return vector_exp(x);
  }
  /// 1 / (1 + e^-x)
  template <class C>
  [[gnu::always_inline]] static C sigmoid(C x) {
    return 1 / (1 + vector_exp(-x));
  }
};

/// random[i] = uniform(key, first + i) for `count` numbers, side by side: one block of Philox makes
/// four.                                                               first: a multiple of 4
template <int count>
void vector_uniform(RandomKey key, std::int64_t first, float* random) {
#pragma omp simd
  for (std::int64_t block = 0; block < count / 4; ++block) {
    auto word = philox(key, first / 4 + block);
    for (int i = 0; i < 4; ++i) random[4 * block + i] = to_uniform(word[i]);
  }
}

}  // namespace plangrad::autograd::cpu
