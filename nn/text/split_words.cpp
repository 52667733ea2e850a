// GPT-2's pattern, run by PCRE2 on the stretches of valid UTF-8. The bytes between them become
// words of their own, so that any bytes can be encoded.
// Chapter 02.
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <memory>

#include "nn/text/byte_pair.h"
#include "nn/text/utf8.h"

namespace plangrad::nn {

namespace {

struct Free {
  void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  void operator()(pcre2_match_data* data) const { pcre2_match_data_free(data); }
};

// Matches contractions; letters, digits or other signs, each with at most one space before; and
// spaces, but leaves the last one to the word that follows. GPT-2 writes \s for [\p{Z}\t-\r\x85],
// Unicode's White_Space, and \S for the rest; PCRE2's own \s includes U+180E, too.
constexpr const char* gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\p{L}\p{N}\p{Z}\t-\r\x85]+)"
    R"(|[\p{Z}\t-\r\x85]+(?![^\p{Z}\t-\r\x85])|[\p{Z}\t-\r\x85]+)";

std::unique_ptr<pcre2_code, Free> compile_pattern() {
  int error = 0;
  PCRE2_SIZE at = 0;
  std::unique_ptr<pcre2_code, Free> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(gpt2_pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr));
  PG_CHECK(code, "PCRE2 rejects the word pattern at ", at, ", error ", error,
           ": use a PCRE2 that was built with Unicode");
  // Without JIT, pcre2_match runs PCRE2's interpreter, which is slower and finds the same words.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

/// Splits valid UTF-8 into words. Turns off PCRE2's own check of UTF-8, which would read from `at`
/// to the end of the text for every word.
void split_valid(std::string_view text, const std::function<void(std::string_view)>& take) {
  static const std::unique_ptr<pcre2_code, Free> code = compile_pattern();
  std::unique_ptr<pcre2_match_data, Free> match(pcre2_match_data_create(1, nullptr));
  for (std::size_t at = 0; at < text.size();) {
    int found = pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                            PCRE2_NO_UTF_CHECK, match.get(), nullptr);
    PG_CHECK(found > 0, "PCRE2 finds no word at byte ", at, " of the text, error ", found);
    std::size_t end = pcre2_get_ovector_pointer(match.get())[1];
    take(text.substr(at, end - at));
    at = end;
  }
}

/// Number of bytes at the start of `text` before the first valid code point.
std::size_t invalid_prefix(std::string_view text) {
  std::size_t at = 0;
  while (at < text.size() && first_code_point(text.substr(at)).length == 0) ++at;
  return at;
}

}  // namespace

void split_words(std::string_view text, const std::function<void(std::string_view)>& take) {
  while (!text.empty()) {
    std::size_t valid = valid_utf8_prefix(text);
    split_valid(text.substr(0, valid), take);
    std::size_t invalid = invalid_prefix(text.substr(valid));
    if (invalid > 0) take(text.substr(valid, invalid));
    text.remove_prefix(valid + invalid);
  }
}

}  // namespace plangrad::nn
