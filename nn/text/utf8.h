// UTF-8: decodes bytes to code points and encodes them again, with the checks of the standard.
// Not here: character classes; GPT-2's word pattern gets them from PCRE2 (nn/text/split_words.cpp).
// Chapter 02; RFC 3629.
#pragma once

#include <string>
#include <string_view>

namespace plangrad::nn {

/// One code point and its length in bytes; length 0 means that the bytes are not valid UTF-8.
struct CodePoint {
  char32_t value = 0;
  int length = 0;
};

/// Decodes the code point at the start of `text`, which must not be empty.
inline CodePoint first_code_point(std::string_view text) {
  auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return {lead, 1};
  int length = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || text.size() < static_cast<std::size_t>(length)) return {};
  char32_t value = lead & (0x7F >> length);
  for (int i = 1; i < length; ++i) {
    auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return {};
    value = value << 6 | (next & 0x3F);
  }
  // Reject overlong encodings, UTF-16's surrogates, and values beyond Unicode.
  bool too_long = value < (length == 4 ? 0x10000u : length == 3 ? 0x800u : 0x80u);
  if (too_long || (value >= 0xD800 && value < 0xE000) || value > 0x10FFFF) return {};
  return {value, length};
}

/// Counts the bytes at the start of `text` that are valid UTF-8.
inline std::size_t valid_utf8_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size()) {
    int length = first_code_point(text.substr(at)).length;
    if (length == 0) break;
    at += static_cast<std::size_t>(length);
  }
  return at;
}

/// Encodes one code point as bytes.
inline std::string to_utf8(char32_t value) {
  auto tail = [value](int shift) { return static_cast<char>(0x80 | ((value >> shift) & 0x3F)); };
  auto head = [value](int mark, int shift) { return static_cast<char>(mark | (value >> shift)); };
  if (value < 0x80) return {static_cast<char>(value)};
  if (value < 0x800) return {head(0xC0, 6), tail(0)};
  if (value < 0x10000) return {head(0xE0, 12), tail(6), tail(0)};
  return {head(0xF0, 18), tail(12), tail(6), tail(0)};
}

}  // namespace plangrad::nn
