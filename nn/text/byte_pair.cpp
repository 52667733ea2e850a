// Encodes word by word, and each word by a queue of its possible merges, lowest rank first.
// Not here: the cut into words (nn/text/split_words.cpp), files (nn/text/byte_pair_files.cpp).
// Chapter 02; Sennrich et al. 2016.
#include "nn/text/byte_pair.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>

#include "nn/text/split_words.h"
#include "nn/text/utf8.h"

namespace paragrad::nn {

namespace {

/// The bytes of a token in GPT-2's spelling.
std::string spelled_bytes(const std::string& token) {
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

}  // namespace

const std::array<std::string, 256>& byte_symbols() {
  static const auto symbols = [] {
    std::array<std::string, 256> table;
    char32_t next = 256;  // the bytes that are not visible in Latin-1 move up here, in order
    for (int byte = 0; byte < 256; ++byte) {
      bool visible = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      table[byte] = to_utf8(visible ? static_cast<char32_t>(byte) : next++);
    }
    return table;
  }();
  return symbols;
}

BytePairVocabulary::BytePairVocabulary(std::vector<std::string> tokens,
                                       std::vector<std::string> merges)
    : tokens_(std::move(tokens)), merges_(std::move(merges)) {
  std::unordered_map<std::string, std::int32_t> ids;
  for (const std::string& token : tokens_) {
    bool is_new = ids.emplace(token, static_cast<std::int32_t>(ids.size())).second;
    PG_CHECK(is_new, "token \"", token, "\" is in the vocabulary twice");
    bytes_.push_back(spelled_bytes(token));
  }
  for (int byte = 0; byte < 256; ++byte) {
    auto found = ids.find(byte_symbols()[byte]);
    PG_CHECK(found != ids.end(), "the vocabulary has no token for byte ", byte, " (\"",
             byte_symbols()[byte], "\"): a byte-level vocabulary has one for each of the 256");
    byte_ids_[byte] = found->second;
  }
  if (auto found = ids.find(std::string(end_of_text)); found != ids.end()) {
    end_of_text_ = found->second;
  }
  for (const std::string& line : merges_) add_merge(line, ids);
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

std::vector<std::int32_t> BytePairVocabulary::encode(std::string_view text) const {
  std::vector<std::int32_t> tokens;
  while (end_of_text_ >= 0) {
    std::size_t mark = text.find(end_of_text);
    if (mark == text.npos) break;
    encode_words(text.substr(0, mark), tokens);
    tokens.push_back(end_of_text_);
    text.remove_prefix(mark + end_of_text.size());
  }
  encode_words(text, tokens);
  return tokens;
}

/// Remembers the words of this text: most of a text is a few thousand words again and again.
void BytePairVocabulary::encode_words(std::string_view text,
                                      std::vector<std::int32_t>& tokens) const {
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;
  split_words(text, [&](std::string_view word) {
    auto [entry, is_new] = known.try_emplace(word);
    if (is_new) entry->second = encode_word(word);
    tokens.insert(tokens.end(), entry->second.begin(), entry->second.end());
  });
}

/// A list of tokens in which position i, if joined, takes over its right neighbour; and a queue of
/// the joints, lowest rank first, then leftmost. A word of n bytes takes n log n steps.
std::vector<std::int32_t> BytePairVocabulary::encode_word(std::string_view word) const {
  int length = static_cast<int>(word.size());
  std::vector<std::int32_t> token(length);  // -1: taken over
  std::vector<int> previous(length), next(length);
  for (int i = 0; i < length; ++i) {
    token[i] = byte_ids_[static_cast<unsigned char>(word[i])];
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
    // Skip a joint whose tokens have been joined with others meanwhile.
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
  return {{"kind", name()}, {"tokens", tokens_}, {"merges", merges_}};
}

}  // namespace paragrad::nn
