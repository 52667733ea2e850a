// A control character is below 32, 127, or from 128 to 159: terminals take U+009B for ESC [.
// Chapter 02.
#include "examples/programs/printable.h"

#include <fmt/format.h>

#include <algorithm>

#include "nn/text/vocabulary.h"

namespace plangrad::examples {

namespace {

bool is_control(char32_t c) { return (c < 32 && c != '\n' && c != '\t') || (c >= 127 && c < 160); }

/// The bytes at the end that may be the beginning of a character of up to four.
std::size_t unfinished(std::string_view text) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return byte >= 0xF0 || back < (byte >= 0xE0 ? 3u : 2u) ? back : 0;
  }
  return 0;
}

}  // namespace

std::string printable(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto [point, length] = nn::first_code_point(text.substr(at));
    if (length == 0)
      out += "\uFFFD";
    else if (is_control(point))
      out += fmt::format("\\x{:02x}", static_cast<unsigned>(point));
    else
      out += text.substr(at, static_cast<std::size_t>(length));
    at += static_cast<std::size_t>(std::max(length, 1));
  }
  return out;
}

std::string PrintablePieces::take(std::string_view piece) {
  held_ += piece;
  const std::size_t kept = unfinished(held_);
  const std::string out = printable(std::string_view(held_).substr(0, held_.size() - kept));
  held_.erase(0, held_.size() - kept);
  return out;
}

}  // namespace plangrad::examples
