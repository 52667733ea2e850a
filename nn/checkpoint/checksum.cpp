// zlib computes checksums. Chapter 02.
#include "nn/checkpoint/checksum.h"

#include <fmt/format.h>
#include <zlib.h>

namespace plangrad::nn {

std::uint32_t crc32_of(std::span<const std::byte> bytes, std::uint32_t before) {
  if (bytes.empty()) return before;  // zlib takes a null pointer for a reset
  const auto* start = reinterpret_cast<const Bytef*>(bytes.data());
  return static_cast<std::uint32_t>(::crc32_z(before, start, bytes.size()));
}

std::string digits_of(std::uint32_t checksum) { return fmt::format("{:08x}", checksum); }

}  // namespace plangrad::nn
