// Philox4x32-10: random numbers as a pure function of (seed, name, index).
// Not here: generator state. Nothing advances, so a model that is cut into stages, and a layer that
// is recomputed, draw the same numbers again. Chapter 02; Salmon et al. 2011, "Parallel random
// numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cmath>
#include <numbers>
#include <string_view>

#include "autograd/dtype.h"

namespace plangrad::autograd {

/// The key of one endless sequence of random numbers.
struct RandomKey {
  std::uint32_t low = 0, high = 0;

  RandomKey() = default;
  /// The sequence `name` of the run with this seed.
  RandomKey(std::uint64_t seed, std::string_view name) {
    std::uint64_t hash = 14695981039346656037ull;  // FNV-1a
    for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ull;
    hash = (hash ^ seed) * 0x9e3779b97f4a7c15ull;
    hash ^= hash >> 32;
    hash = (hash + seed) * 0xbf58476d1ce4e5b9ull;
    hash ^= hash >> 29;
    low = static_cast<std::uint32_t>(hash);
    high = static_cast<std::uint32_t>(hash >> 32);
  }
};

/// Four 32-bit random words for block `counter` of the sequence `key`.
/// source: Salmon et al. 2011, section 3.3, ten rounds
PG_HOST_DEVICE inline std::array<std::uint32_t, 4> philox(RandomKey key, std::uint64_t counter) {
  std::uint32_t x0 = static_cast<std::uint32_t>(counter);
  std::uint32_t x1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t x2 = 0, x3 = 0;
  for (int round = 0; round < 10; ++round) {
    std::uint64_t p = 0xD2511F53ull * x0, q = 0xCD9E8D57ull * x2;
    std::uint32_t y0 = static_cast<std::uint32_t>(q >> 32) ^ x1 ^ key.low;
    std::uint32_t y2 = static_cast<std::uint32_t>(p >> 32) ^ x3 ^ key.high;
    x1 = static_cast<std::uint32_t>(q);
    x3 = static_cast<std::uint32_t>(p);
    x0 = y0;
    x2 = y2;
    key.low += 0x9E3779B9;
    key.high += 0xBB67AE85;
  }
  return {x0, x1, x2, x3};
}

/// Word `index` of the sequence, of 32 random bits.
PG_HOST_DEVICE inline std::uint32_t random_bits(RandomKey key, std::uint64_t index) {
  return philox(key, index / 4)[index % 4];
}

/// The random word as a number in [0, 1), a multiple of 2^-24.
PG_HOST_DEVICE inline float to_uniform(std::uint32_t bits) {
  return static_cast<float>(bits >> 8) * 0x1p-24f;
}

/// Number `index` of the sequence, uniform in [0, 1).
PG_HOST_DEVICE inline float uniform(RandomKey key, std::uint64_t index) {
  return to_uniform(random_bits(key, index));
}

/// Number `index` of the sequence, uniform over the integers [0, range).
inline std::uint64_t uniform_integer(RandomKey key, std::uint64_t index, std::uint64_t range) {
  auto word = philox(key, index);
  std::uint64_t bits = (static_cast<std::uint64_t>(word[1]) << 32) | word[0];
  // The upper half of bits * range, without the bias that bits % range would have.
  __extension__ using Wide = unsigned __int128;
  return static_cast<std::uint64_t>((static_cast<Wide>(bits) * range) >> 64);
}

/// Number `index` of the sequence, normal with mean 0 and variance 1 (Box and Muller 1958).
PG_HOST_DEVICE inline float normal(RandomKey key, std::uint64_t index) {
  auto word = philox(key, index / 2);
  double radius = std::sqrt(-2.0 * std::log((word[0] + 1.0) * 0x1p-32));
  double angle = 2.0 * std::numbers::pi * (word[1] * 0x1p-32);
  return static_cast<float>(radius * (index % 2 ? std::sin(angle) : std::cos(angle)));
}

}  // namespace plangrad::autograd
