// Checksums: the CRC-32 of PNG and gzip, which finds random damage, such as a flipped bit or a lost
// page, but no forgery. Not here: which bytes have one (safetensors.h, checkpoint.h). Chapter 02.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace plangrad::nn {

/// Returns the CRC-32 of some bytes, which follow others whose CRC-32 is `before`. It equals
/// zlib.crc32(bytes, before) of Python.
std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before = 0);

/// Returns a CRC-32 as eight hexadecimal digits.
std::string digits_of(std::uint32_t checksum);

inline std::string checksum_of(std::span<const std::byte> bytes) {
  return digits_of(crc32_of(bytes));
}
inline std::string checksum_of(std::string_view text) {
  return checksum_of(std::as_bytes(std::span(text)));
}

}  // namespace plangrad::nn
