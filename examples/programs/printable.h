// printable: text of others' files, made safe for a terminal. Names of tensors, tokens and words of
// a plan come from files that anybody may have written, and a terminal obeys some characters.
// Not here: messages themselves. Chapter 02.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace plangrad::examples {

/// Shows control characters as \x1b, and bytes that are not UTF-8 as U+FFFD. Line breaks and tabs
/// stay.
std::string printable(std::string_view text);

/// Does the same for text that comes in pieces, which may end within a character.
class PrintablePieces {
 public:
  /// Returns the text that is complete with this piece.
  std::string take(std::string_view piece);
  /// Returns the incomplete character, if the last piece ended within one.
  std::string rest() { return printable(std::exchange(held_, {})); }

 private:
  std::string held_;  // the beginning of a character
};

}  // namespace plangrad::examples
