// Splits text into words by GPT-2's pattern, which PCRE2 runs on the stretches of valid UTF-8; the
// bytes between them become words of their own, so that any bytes can be encoded. Encodes each word
// with a queue of its possible merges, lowest rank first; reads and writes GPT-2's two files.
// Chapter 02; Sennrich et al. 2016.
#include "nn/text/byte_pair.h"

#include <nlohmann/json.hpp>
#include <queue>

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

/// Converts {"token": id} to a list by id.
static std::vector<std::string> tokens_by_id(const nlohmann::json& vocab) {
  std::vector<std::string> tokens(vocab.size());
  std::vector<bool> taken(vocab.size());
  for (const auto& [token, value] : vocab.items()) {
    const std::int64_t id = whole_number(value);
    PG_CHECK(id >= 0 && id < static_cast<std::int64_t>(tokens.size()) && !taken[id], "token \"",
             token, "\" has id ", id, ", expected each of 0 to ", tokens.size() - 1, " once");
    taken[id] = true;
    tokens[id] = token;
  }
  return tokens;
}

/// Returns the lines of merges.txt without the first one, "#version: 0.2".
static std::vector<std::string> merge_lines(const std::string& file) {
  std::istringstream in(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    if (line.ends_with('\r')) line.pop_back();
    if (!line.empty() && !line.starts_with("#version")) lines.push_back(line);
  }
  return lines;
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
  if (auto found = ids.find(std::string(end_of_text)); found != ids.end())
    end_of_text_ = found->second;
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

/// Encodes each distinct word once: a text repeats a few thousand words most of the time.
void BytePairVocabulary::encode_words(std::string_view text,
                                      std::vector<std::int32_t>& tokens) const {
  std::unordered_map<std::string_view, std::vector<std::int32_t>> known;
  split_words(text, [&](std::string_view word) {
    auto [entry, is_new] = known.try_emplace(word);
    if (is_new) entry->second = encode_word(word);
    tokens.insert(tokens.end(), entry->second.begin(), entry->second.end());
  });
}

/// Encodes a word with a list of tokens, in which position i absorbs its right neighbour when they
/// are joined, and a queue of joints, lowest rank first, then leftmost, in O(n log n) for n bytes.
std::vector<std::int32_t> BytePairVocabulary::encode_word(std::string_view word) const {
  int length = static_cast<int>(word.size());
  std::vector<std::int32_t> token(length);  // -1: absorbed
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
  return {{"kind", name()}, {"tokens", tokens_}, {"merges", merges_}};
}

BytePairVocabulary read_byte_pairs(const std::filesystem::path& vocab_json) {
  auto merges = vocab_json.parent_path() / "merges.txt";
  std::string vocab_text = read_file(vocab_json, most::json);
  std::string merges_text = read_file(merges, most::json);
  try {
    auto vocab = parse_json(vocab_text);
    PG_CHECK(vocab.is_object(), "expected an object {\"token\": id, ...}");
    return BytePairVocabulary(tokens_by_id(vocab), merge_lines(merges_text));
  } catch (const std::exception& problem) {
    throw Error(text(vocab_json.string(),
                     " and its merges.txt are not a byte-pair vocabulary: ", problem.what()));
  }
}

void write_byte_pairs(const BytePairVocabulary& vocabulary, const std::filesystem::path& folder) {
  nlohmann::json vocab = nlohmann::json::object();
  for (int id = 0; id < vocabulary.size(); ++id) vocab[vocabulary.tokens()[id]] = id;
  std::string merges = "#version: 0.2\n";
  for (const std::string& merge : vocabulary.merges()) merges += merge + "\n";

  make_folder(folder);
  write_file(folder / "vocab.json", vocab.dump());
  write_file(folder / "merges.txt", merges);
}

}  // namespace plangrad::nn
