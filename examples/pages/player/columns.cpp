// Columns in base64. Chapter 06.
#include "examples/pages/player/columns.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "autograd/error.h"

namespace plangrad::examples {
namespace {

/// source: RFC 4648, section 4
std::string base64(const std::string& bytes) {
  constexpr const char* digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t three = 0;
    const std::size_t there = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t j = 0; j < 3; ++j)
      three = three << 8 | (j < there ? static_cast<unsigned char>(bytes[i + j]) : 0);
    for (std::size_t j = 0; j < 4; ++j)
      out += j <= there ? digits[three >> (18 - 6 * j) & 63] : '=';
  }
  return out;
}

template <class Bits>
void append(std::string& bytes, Bits bits) {
  for (std::size_t i = 0; i < sizeof(Bits); ++i) bytes += static_cast<char>(bits >> (8 * i) & 0xff);
}

template <class Small>
std::string packed(const char* name, const std::vector<std::int64_t>& numbers) {
  std::string bytes;
  bytes.reserve(numbers.size() * sizeof(Small));
  for (std::int64_t number : numbers)
    append(bytes, static_cast<std::make_unsigned_t<Small>>(static_cast<Small>(number)));
  return name + base64(bytes);
}

template <class Small>
bool fits(std::int64_t least, std::int64_t most) {
  return least >= std::numeric_limits<Small>::min() && most <= std::numeric_limits<Small>::max();
}

}  // namespace

std::string pack(const std::vector<std::int64_t>& numbers) {
  std::int64_t least = 0, most = 0;
  for (std::int64_t number : numbers) {
    least = std::min(least, number);
    most = std::max(most, number);
  }
  if (fits<std::int8_t>(least, most)) return packed<std::int8_t>("i8:", numbers);
  if (fits<std::int16_t>(least, most)) return packed<std::int16_t>("i16:", numbers);
  PG_CHECK(fits<std::int32_t>(least, most), "columns: ", most, " needs more than 32 bits");
  return packed<std::int32_t>("i32:", numbers);
}

std::string pack(const std::vector<double>& numbers) {
  if (std::ranges::all_of(numbers, [](double number) { return number == 0; }))
    return pack(std::vector<std::int64_t>(numbers.size()));
  std::string bytes;
  bytes.reserve(numbers.size() * 4);
  for (double number : numbers)
    append(bytes, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
  return "f32:" + base64(bytes);
}

}  // namespace plangrad::examples
