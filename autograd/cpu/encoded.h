// Values as the bytes of a message: small whole numbers, packed 8 at a time: 8 numbers of b bits
// take b bytes, the first number in the lowest bits. Not here: the meaning of the numbers
// (autograd/cpu/quantize.cpp, sparse_values.cpp). Chapter 10.
#pragma once

#include <cstring>

#include "autograd/dtype.h"

namespace plangrad::autograd::cpu {

/// Calls `kernel.template operator()<T>()` with the C++ type of values that codecs encode.
template <class Kernel>
auto dispatch_encoded(DType dtype, Kernel&& kernel) {
  PG_CHECK(dtype == DType::f32 || dtype == DType::bf16, "codecs act on f32 and bf16, not ", dtype);
  return dtype == DType::f32 ? kernel.template operator()<float>()
                             : kernel.template operator()<bf16>();
}

/// A mask of the lowest `used` bits in every lane of `lane` bits of a word.
constexpr std::uint64_t low_bits(int lane, int used) {
  std::uint64_t one = used == 64 ? ~0ull : (1ull << used) - 1, all = 0;
  for (int at = 0; at < 64; at += lane) all |= one << at;
  return all;
}

// [snippet join]
/// Joins pairs of lanes that hold `used` bits each: moves the upper lane down beside the lower one.
template <int lane, int used>
constexpr std::uint64_t join_lanes(std::uint64_t word) {
  constexpr std::uint64_t low = low_bits(2 * lane, used);
  return (word & low) | ((word >> (lane - used)) & (low << used));
}
// [end snippet]

/// Splits each pair of lanes again: the inverse of join_lanes.
template <int lane, int used>
constexpr std::uint64_t part_lanes(std::uint64_t word) {
  constexpr std::uint64_t low = low_bits(2 * lane, used);
  return (word & low) | ((word & (low << used)) << (lane - used));
}

// [snippet join_bytes]
/// Packs 8 numbers of b bits, one in each byte, into the lowest b bytes.
template <int b>
constexpr std::uint64_t join_bytes(std::uint64_t word) {
  return join_lanes<32, 4 * b>(join_lanes<16, 2 * b>(join_lanes<8, b>(word)));
}
// [end snippet]
/// Unpacks 8 numbers of b bits to one in each byte: the inverse of join_bytes.
template <int b>
constexpr std::uint64_t part_bytes(std::uint64_t word) {
  return part_lanes<8, b>(part_lanes<16, 2 * b>(part_lanes<32, 4 * b>(word)));
}

// One loop works on whole words, and the compiler vectorises it. The other one moves 8 bytes, of
// which b count, so that the last word needs 8 bytes of room.
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

/// Packs groups of 8 numbers below 2^bits, one byte each, and overwrites `words`. Writes 8 - bits
/// more bytes than the groups need.                                                  bits: 1 to 8
inline void pack(int bits, std::uint64_t* words, std::int64_t groups, std::byte* packed) {
  dispatch<1, 8>(bits, [=]<int b>() { pack_words<b>(words, groups, packed); });
}
/// Unpacks what pack() wrote. Reads 8 - bits more bytes than the groups need.
inline void unpack(int bits, const std::byte* packed, std::int64_t groups, std::uint64_t* words) {
  dispatch<1, 8>(bits, [=]<int b>() { unpack_words<b>(packed, groups, words); });
}

}  // namespace plangrad::autograd::cpu
