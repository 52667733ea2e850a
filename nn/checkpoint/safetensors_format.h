// What the reader and the writer of safetensors share: the format's limits and its dtypes.
// Not here: an interface. Only files of nn/checkpoint include this.
// Chapter 02.
#pragma once

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace paragrad::nn::format {

using Bytes = std::span<const std::byte>;

inline constexpr std::uint64_t length_bytes = 8;
inline constexpr std::uint64_t header_limit = 100'000'000;
inline constexpr const char* metadata_key = "__metadata__";

/// A name as an error shows it: on one line, whatever it holds.
std::string in_quotes(const std::string& name);

/// What the system says about its last error.
std::string system_message();

/// Bytes of a tensor; every product on the way must fit in 63 bits, even where a later size is 0.
/// throws: Error, which begins with `where`, if they do not, or the format has no such dtype
std::int64_t checked_byte_count(const std::string& where, const std::string& dtype,
                                const std::vector<std::int64_t>& sizes);

/// An open file that closes itself.
struct Descriptor {
  int number;
  explicit Descriptor(int opened) : number(opened) {}
  Descriptor(const Descriptor&) = delete;
  ~Descriptor() {
    if (number >= 0) ::close(number);
  }
};

}  // namespace paragrad::nn::format
