// Small whole numbers, 8 of b bits in b bytes, the first one lowest.
// Not here: what the numbers mean (autograd/cpu/quantize.cpp).
// Chapter 10.
#pragma once

#include <cstdint>
#include <cstring>

namespace paragrad::autograd::cpu {

/// The lowest `used` bits of every `lane` bits of a word.
constexpr std::uint64_t low_bits(int lane, int used) {
  std::uint64_t one = used == 64 ? ~0ull : (1ull << used) - 1, all = 0;
  for (int at = 0; at < 64; at += lane) all |= one << at;
  return all;
}

// [snippet join]
/// Lanes hold `used` bits each; moves the upper lane of each pair down beside the lower one.
template <int lane, int used>
constexpr std::uint64_t join_lanes(std::uint64_t word) {
  constexpr std::uint64_t low = low_bits(2 * lane, used);
  return (word & low) | ((word >> (lane - used)) & (low << used));
}
// [end snippet]

/// Its inverse.
template <int lane, int used>
constexpr std::uint64_t part_lanes(std::uint64_t word) {
  constexpr std::uint64_t low = low_bits(2 * lane, used);
  return (word & low) | ((word & (low << used)) << (lane - used));
}

// [snippet join_bytes]
/// 8 numbers of b bits, from 8 bytes to the lowest b bytes.
template <int b>
constexpr std::uint64_t join_bytes(std::uint64_t word) {
  return join_lanes<32, 4 * b>(join_lanes<16, 2 * b>(join_lanes<8, b>(word)));
}
// [end snippet]
template <int b>
constexpr std::uint64_t part_bytes(std::uint64_t word) {
  return part_lanes<8, b>(part_lanes<16, 2 * b>(part_lanes<32, 4 * b>(word)));
}

// One loop over whole words, which the compiler turns into vector code, and one that moves 8 bytes
// for each b that count, so that the last word needs 8 bytes of room.
template <int b>
void pack_words(std::uint64_t* words, std::int64_t groups, std::byte* packed) {
  for (std::int64_t i = 0; i < groups; ++i) words[i] = join_bytes<b>(words[i]);
  for (std::int64_t i = 0; i < groups; ++i) std::memcpy(packed + b * i, words + i, 8);
}
template <int b>
void unpack_words(const std::byte* packed, std::int64_t groups, std::uint64_t* words) {
  for (std::int64_t i = 0; i < groups; ++i) std::memcpy(words + i, packed + b * i, 8);
  for (std::int64_t i = 0; i < groups; ++i) words[i] = part_bytes<b>(words[i]);
}

/// Packs groups of 8 numbers below 2^bits, a byte each, which are lost. Writes 8 - bits bytes more
/// than the groups need.                                                             bits: 1 to 8
inline void pack(int bits, std::uint64_t* words, std::int64_t groups, std::byte* packed) {
  switch (bits) {
    case 1: return pack_words<1>(words, groups, packed);
    case 2: return pack_words<2>(words, groups, packed);
    case 3: return pack_words<3>(words, groups, packed);
    case 4: return pack_words<4>(words, groups, packed);
    case 5: return pack_words<5>(words, groups, packed);
    case 6: return pack_words<6>(words, groups, packed);
    case 7: return pack_words<7>(words, groups, packed);
    default: return pack_words<8>(words, groups, packed);
  }
}
/// Its inverse, which reads as many bytes more.
inline void unpack(int bits, const std::byte* packed, std::int64_t groups, std::uint64_t* words) {
  switch (bits) {
    case 1: return unpack_words<1>(packed, groups, words);
    case 2: return unpack_words<2>(packed, groups, words);
    case 3: return unpack_words<3>(packed, groups, words);
    case 4: return unpack_words<4>(packed, groups, words);
    case 5: return unpack_words<5>(packed, groups, words);
    case 6: return unpack_words<6>(packed, groups, words);
    case 7: return unpack_words<7>(packed, groups, words);
    default: return unpack_words<8>(packed, groups, words);
  }
}

}  // namespace paragrad::autograd::cpu
