// What is neither reading nor writing: sizes of dtypes, overflow checks, conversion to float.
// Not here: files (nn/checkpoint/safetensors_read.cpp, nn/checkpoint/safetensors_write.cpp).
// Chapter 02.
#include "nn/checkpoint/safetensors.h"

#include <bit>
#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <system_error>

#include "autograd/error.h"
#include "nn/checkpoint/safetensors_format.h"

namespace paragrad::nn {

namespace format {

static_assert(std::endian::native == std::endian::little, "safetensors data is little-endian");

std::string in_quotes(const std::string& name) {
  using nlohmann::json;
  return json(name).dump(-1, ' ', false, json::error_handler_t::replace);
}

std::string system_message() { return std::generic_category().message(errno); }

std::int64_t checked_byte_count(const std::string& where, const std::string& dtype,
                                const std::vector<std::int64_t>& sizes) {
  // Bytes of one element of each type that the format has, those of half a byte left out.
  static const std::map<std::string, std::int64_t, std::less<>> element_bytes = {
      {"BOOL", 1},    {"U8", 1},   {"I8", 1},          {"F8_E4M3", 1},     {"F8_E5M2", 1},
      {"F8_E8M0", 1}, {"U16", 2},  {"F8_E4M3FNUZ", 1}, {"F8_E5M2FNUZ", 1}, {"I16", 2},
      {"F16", 2},     {"BF16", 2}, {"U32", 4},         {"I32", 4},         {"F32", 4},
      {"C64", 8},     {"U64", 8},  {"I64", 8},         {"F64", 8}};
  auto element = element_bytes.find(dtype);
  PG_CHECK(element != element_bytes.end(), where, " has the unknown dtype ", in_quotes(dtype),
           "; expected one like F32, BF16, F16, F64, I64, I32, U8 or BOOL");
  std::int64_t count = 1;
  bool overflow = false;
  for (std::int64_t size : sizes) overflow |= __builtin_mul_overflow(count, size, &count);
  overflow |= __builtin_mul_overflow(count, element->second, &count);
  PG_CHECK(!overflow, where, " has a shape whose size in bytes overflows 63 bits");
  return count;
}

}  // namespace format

namespace {

/// IEEE half precision: 1 bit of sign, 5 of exponent, 10 of mantissa. Every value is a float.
float float_of_half(std::uint16_t half) {
  std::uint32_t sign = (half & 0x8000u) << 16, exponent = (half >> 10) & 31, mantissa = half & 1023;
  if (exponent == 0) {  // zero and subnormals: multiples of 2^-24
    float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return sign ? -magnitude : magnitude;
  }
  exponent = exponent == 31 ? 255 : exponent + (127 - 15);
  return std::bit_cast<float>(sign | exponent << 23 | mantissa << 13);
}

/// Reads elements of type T, wherever they lie, and converts each to float.
template <class T, class Convert>
std::vector<float> converted(format::Bytes bytes, Convert convert) {
  std::vector<float> result(bytes.size() / sizeof(T));
  for (std::size_t i = 0; i < result.size(); ++i) {
    T value;
    std::memcpy(&value, bytes.data() + i * sizeof(T), sizeof(T));
    result[i] = convert(value);
  }
  return result;
}

}  // namespace

std::string safetensors_dtype(DType dtype) {
  switch (dtype) {
    case DType::f32: return "F32";
    case DType::bf16: return "BF16";
    case DType::f64: return "F64";
    case DType::u8: return "U8";
    default: return "I32";
  }
}

std::vector<float> to_floats(const SafetensorsEntry& entry) {
  auto cast = [](auto value) { return static_cast<float>(value); };
  if (entry.dtype == "F32") return converted<float>(entry.bytes, cast);
  if (entry.dtype == "F64") return converted<double>(entry.bytes, cast);
  if (entry.dtype == "BF16") return converted<bf16>(entry.bytes, cast);
  if (entry.dtype == "F16") return converted<std::uint16_t>(entry.bytes, float_of_half);
  throw Error("tensor " + format::in_quotes(entry.name) + " holds " + entry.dtype +
              ", expected F32, F64, F16 or BF16");
}

}  // namespace paragrad::nn
