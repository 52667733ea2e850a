// Splits text into words by GPT-2's pattern, which PCRE2 runs on the stretches of valid UTF-8; the
// bytes between them become words of their own, so that any bytes can be encoded. Encodes each word
// with a queue of its possible merges, lowest rank first. Not here: files (tokenizer_files.cpp).
// Chapter 02; Sennrich et al. 2016.
#include "nn/text/byte_pair.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <ranges>

#include "nn/checkpoint/file.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

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

// Matches a letter, a digit or an underscore, as \w does in the expressions of tokenizers.
constexpr const char* word_pattern =
    R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200c}\x{200d}\x{24b6}-\x{24e9}])";

std::unique_ptr<pcre2_code, Free> compile(const char* pattern) {
  int error = 0;
  PCRE2_SIZE at = 0;
  std::unique_ptr<pcre2_code, Free> code(
      pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern), PCRE2_ZERO_TERMINATED,
                    PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED, &error, &at, nullptr));
  PG_CHECK(code, "PCRE2 rejects the word pattern at ", at, ", error ", error,
           ": use a PCRE2 that was built with Unicode");
  // Without JIT, pcre2_match runs PCRE2's interpreter, which is slower and finds the same words.
  pcre2_jit_compile(code.get(), PCRE2_JIT_COMPLETE);
  return code;
}

using Match = std::unique_ptr<pcre2_match_data, Free>;

/// Looks for the pattern at a place of valid UTF-8. Turns off PCRE2's own check of UTF-8, which
/// would read from `at` to the end of the text.
int find_at(const std::unique_ptr<pcre2_code, Free>& code, std::string_view text, std::size_t at,
            const Match& match) {
  return pcre2_match(code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), at,
                     PCRE2_NO_UTF_CHECK, match.get(), nullptr);
}

/// Splits valid UTF-8 into words.
void split_valid(std::string_view text, const std::function<void(std::string_view)>& take) {
  static const std::unique_ptr<pcre2_code, Free> code = compile(gpt2_pattern);
  const Match match(pcre2_match_data_create(1, nullptr));
  for (std::size_t at = 0; at < text.size();) {
    int found = find_at(code, text, at, match);
    PG_CHECK(found > 0, "PCRE2 finds no word at byte ", at, " of the text, error ", found);
    std::size_t end = pcre2_get_ovector_pointer(match.get())[1];
    take(text.substr(at, end - at));
    at = end;
  }
}

/// The length of the last character of `text`, 1 for a byte that is not UTF-8; 0 if it is empty.
std::size_t last_length(std::string_view text) {
  for (std::size_t length = 1; length <= std::min<std::size_t>(4, text.size()); ++length)
    if (first_code_point(text.substr(text.size() - length)).length == static_cast<int>(length))
      return length;
  return text.empty() ? 0 : 1;
}

/// Whether a character is Unicode's White_Space.
bool is_space(char32_t c) {
  return (c >= '\t' && c <= '\r') || c == ' ' || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

/// Whether the text begins with a character of words.
bool begins_word(std::string_view text) {
  static const std::unique_ptr<pcre2_code, Free> code = compile(word_pattern);
  const int length = text.empty() ? 0 : first_code_point(text).length;
  const Match match(pcre2_match_data_create(1, nullptr));
  return length > 0 &&
         find_at(code, text.substr(0, static_cast<std::size_t>(length)), 0, match) > 0;
}

/// Whether what stands at [begin, end) is not a part of a longer word.
bool stands_alone(std::string_view text, std::size_t begin, std::size_t end) {
  const std::string_view before = text.substr(0, begin);
  return !begins_word(before.substr(before.size() - last_length(before))) &&
         !begins_word(text.substr(end));
}

/// The place to which white space reaches, back from `at` or on from there.
std::size_t space_before(std::string_view text, std::size_t at) {
  for (std::size_t length = 1; length > 0; at -= length) {
    length = last_length(text.substr(0, at));
    if (length == 0 || !is_space(first_code_point(text.substr(at - length)).value)) return at;
  }
  return at;
}
std::size_t space_behind(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const CodePoint next = first_code_point(text.substr(at));
    if (!is_space(next.value)) break;
    at += static_cast<std::size_t>(next.length);
  }
  return at;
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

/// Decodes the bytes of a token from GPT-2's spelling.
static std::string spelled_bytes(const std::string& token) {
  static const auto byte_of = [] {
    std::unordered_map<std::string, char> table;
    for (int byte = 0; byte < 256; ++byte) table[byte_symbols()[byte]] = static_cast<char>(byte);
    return table;
  }();
  std::string bytes;
  for (std::size_t at = 0; at < token.size();) {
    int length = first_code_point(std::string_view(token).substr(at)).length;
    auto found = byte_of.find(token.substr(at, static_cast<std::size_t>(length)));
    PG_CHECK(found != byte_of.end(), "token \"", token,
             "\" is not in the byte-level spelling of GPT-2: this is another kind of vocabulary");
    bytes.push_back(found->second);
    at += static_cast<std::size_t>(length);
  }
  return bytes;
}

const std::array<std::string, 256>& byte_symbols() {
  static const auto symbols = [] {
    std::array<std::string, 256> table;
    char32_t next = 256;  // bytes that are not visible in Latin-1 get numbers from here, in order
    for (int byte = 0; byte < 256; ++byte) {
      bool visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      table[byte] = to_utf8(visible ? static_cast<char32_t>(byte) : next++);
    }
    return table;
  }();
  return symbols;
}

BytePairVocabulary::BytePairVocabulary(std::vector<std::string> tokens,
                                       std::vector<std::string> merges,
                                       const std::vector<AddedToken>& added)
    : tokens_(std::move(tokens)), merges_(std::move(merges)) {
  std::unordered_map<std::string, std::int32_t> ids;
  for (const std::string& token : tokens_)
    PG_CHECK(ids.emplace(token, static_cast<std::int32_t>(ids.size())).second, "token \"", token,
             "\" is in the vocabulary twice");
  auto add = [&](const AddedToken& token) {
    PG_CHECK(!token.content.empty() && token.id >= 0 && token.id < size() &&
                 tokens_[token.id] == token.content,
             "the added token \"", token.content, "\" is not the token with id ", token.id);
    Pass& pass = passes_[token.normalized ? 1 : 0];
    pass.begins[static_cast<unsigned char>(token.content[0])] = true;
    pass.emplace(token.content, token);
  };
  for (const AddedToken& token : added) add(token);
  if (const auto found = ids.find(std::string(end_of_text)); found != ids.end() && !separator())
    add({found->second, found->first});
  for (const std::string& token : tokens_) {
    const bool is_added = passes_[0].contains(token) || passes_[1].contains(token);
    bytes_.push_back(is_added ? token : spelled_bytes(token));
  }
  for (int byte = 0; byte < 256; ++byte) {
    auto found = ids.find(byte_symbols()[byte]);
    byte_ids_[byte] = found == ids.end() ? -1 : found->second;
  }
  for (const std::string& line : merges_) add_merge(line, ids);
}

std::vector<AddedToken> BytePairVocabulary::added() const {
  std::vector<AddedToken> all;
  for (const Pass& pass : passes_)
    for (const auto& [content, token] : pass) all.push_back(token);
  std::ranges::sort(all, {}, &AddedToken::id);
  return all;
}

int BytePairVocabulary::size_without_added() const {
  int count = size();
  for (const AddedToken& token : added() | std::views::reverse) count -= token.id == count - 1;
  return count;
}

std::optional<std::int32_t> BytePairVocabulary::separator() const {
  for (const Pass& pass : passes_)
    if (const auto found = pass.find(end_of_text); found != pass.end()) return found->second.id;
  return {};
}

void BytePairVocabulary::add_merge(const std::string& line,
                                   const std::unordered_map<std::string, std::int32_t>& ids) {
  std::size_t space = line.find(' ');
  PG_CHECK(space != line.npos && line.find(' ', space + 1) == line.npos, "merge ",
           ranked_.size() + 1, " is \"", line, "\", expected two tokens with a space between");
  std::string left = line.substr(0, space), right = line.substr(space + 1);
  auto id = [&](const std::string& token) {
    auto found = ids.find(token);
    PG_CHECK(found != ids.end(), "merge ", ranked_.size() + 1, " (\"", line, "\") needs token \"",
             token,
             "\", which the vocabulary lacks: do vocab.json and merges.txt belong together?");
    return found->second;
  };
  Merge merge{id(left), id(right), id(left + right)};
  int rank = static_cast<int>(ranked_.size());
  bool is_new = rank_of_.emplace(pair_key(merge.left, merge.right), rank).second;
  PG_CHECK(is_new, "merge ", rank + 1, " (\"", line, "\") is listed twice");
  ranked_.push_back(merge);
}

/// Finds the last token that is not after the text. If that is not a prefix of the text, a prefix
/// is no longer than what the two have in common.
const AddedToken* BytePairVocabulary::Pass::longest_at_start(std::string_view text) const {
  if (text.empty() || !begins[static_cast<unsigned char>(text[0])]) return nullptr;
  while (!text.empty()) {
    const auto after = upper_bound(text);
    if (after == begin()) return nullptr;
    const auto& [content, token] = *std::prev(after);
    if (text.starts_with(content)) return &token;
    const auto differ = std::ranges::mismatch(text, content).in1;
    text = text.substr(0, static_cast<std::size_t>(differ - text.begin()));
  }
  return nullptr;
}

void BytePairVocabulary::encode_parts(std::string_view text, const TakeTokens& take) const {
  Words known;
  encode_part(text, 0, known, take);
}

/// Encodes what stands between the added tokens of this pass by the next one; after the last pass,
/// by words, each distinct one once: a text repeats a few thousand words most of the time.
void BytePairVocabulary::encode_part(std::string_view text, std::size_t pass, Words& known,
                                     const TakeTokens& take) const {
  if (pass == passes_.size())
    return split_words(text, [&](std::string_view word) {
      auto [entry, is_new] = known.try_emplace(word);
      if (is_new) entry->second = encode_word(word);
      take(entry->second);
    });
  std::size_t done = 0;
  for (std::size_t at = passes_[pass].empty() ? text.size() : 0; at < text.size();) {
    const AddedToken* found = passes_[pass].longest_at_start(text.substr(at));
    const std::size_t end = at + (found ? found->content.size() : 1);
    if (found && (!found->single_word || stands_alone(text, at, end))) {
      if (found->lstrip) at = std::max(done, space_before(text, at));
      const std::size_t last = found->rstrip ? space_behind(text, end) : end;
      if (at > done) encode_part(text.substr(done, at - done), pass + 1, known, take);
      if (at < last) take(std::span(&found->id, 1));
      done = last;
    }
    at = end;  // white space that was taken in may begin another
  }
  encode_part(text.substr(done), pass + 1, known, take);
}

/// Encodes a word with a list of tokens, in which position i absorbs its right neighbour when they
/// are joined, and a queue of joints, lowest rank first, then leftmost, in O(n log n) for n bytes.
std::vector<std::int32_t> BytePairVocabulary::encode_word(std::string_view word) const {
  int length = static_cast<int>(word.size());
  std::vector<std::int32_t> token(length);  // -1: absorbed
  std::vector<int> previous(length), next(length);
  for (int i = 0; i < length; ++i) {
    const auto byte = static_cast<unsigned char>(word[i]);
    token[i] = byte_ids_[byte];
    PG_CHECK(token[i] >= 0, "the text has the byte ", int(byte), " in \"", word.substr(0, 40),
             "\", for which the vocabulary has no token: leave such characters out");
    previous[i] = i - 1;
    next[i] = i + 1;
  }

  using Joint = std::pair<int, int>;  // rank, position of the left token
  std::priority_queue<Joint, std::vector<Joint>, std::greater<>> joints;
  auto consider = [&](int left) {
    if (left < 0 || next[left] >= length) return;
    auto found = rank_of_.find(pair_key(token[left], token[next[left]]));
    if (found != rank_of_.end()) joints.emplace(found->second, left);
  };
  for (int i = 0; i < length; ++i) consider(i);

  while (!joints.empty()) {
    auto [rank, left] = joints.top();
    joints.pop();
    const Merge& merge = ranked_[rank];
    // Skip a joint if one of its tokens has been joined with another token since.
    int right = next[left];
    if (token[left] != merge.left || right >= length || token[right] != merge.right) continue;
    token[left] = merge.result;
    token[right] = -1;
    next[left] = next[right];
    if (next[left] < length) previous[next[left]] = left;
    consider(previous[left]);
    consider(left);
  }
  std::erase(token, -1);
  return token;
}

nlohmann::json BytePairVocabulary::to_json() const {
  nlohmann::json saved{{"kind", name()}, {"tokens", tokens_}, {"merges", merges_}};
  for (const AddedToken& token : added()) {
    const bool is_usual = token.content == end_of_text && !token.single_word && !token.lstrip &&
                          !token.rstrip;  // and earlier checkpoints do not have it
    if (!is_usual) saved["added"].push_back(nn::to_json(token));
  }
  return saved;
}

nlohmann::json to_json(const AddedToken& token) {
  return {{"id", token.id},         {"content", token.content}, {"single_word", token.single_word},
          {"lstrip", token.lstrip}, {"rstrip", token.rstrip},   {"normalized", token.normalized}};
}

AddedToken added_token(const nlohmann::json& saved) {
  const std::int64_t id = whole_number(saved.at("id"));
  PG_CHECK(id >= 0 && id <= INT32_MAX, "an added token has the id ", id);
  return {static_cast<std::int32_t>(id),     saved.at("content"),
          saved.value("single_word", false), saved.value("lstrip", false),
          saved.value("rstrip", false),      saved.value("normalized", false)};
}

}  // namespace plangrad::nn
