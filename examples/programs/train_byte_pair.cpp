// Counts pairs once, then only where a merge changed a word. The queue keeps outdated counts and
// skips them when they come up. Chapter 02; Sennrich et al. 2016, algorithm 1.
#include "examples/programs/train_byte_pair.h"

#include <queue>
#include <unordered_set>
#include <utility>

#include "nn/text/vocabulary.h"

namespace plangrad::examples {

using namespace nn;

namespace {

/// Two token ids, packed by pair_key().
using Pair = std::uint64_t;

/// A word, with each token at its first byte and at its last: between them is what they replaced.
struct Word {
  std::vector<std::int32_t> tokens;
  std::int64_t count = 0;
};

/// Returns the distinct words of `text`, as bytes, in sorted order; documents are split first.
std::vector<Word> count_words(std::string_view text,
                              const std::array<std::int32_t, 256>& byte_ids) {
  std::map<std::string_view, std::int64_t> counts;
  for (std::size_t mark = 0; mark != text.npos;) {
    mark = text.find(end_of_text);
    split_words(text.substr(0, mark), [&](std::string_view word) { ++counts[word]; });
    if (mark != text.npos) text.remove_prefix(mark + end_of_text.size());
  }
  std::vector<Word> words;
  for (const auto& [bytes, count] : counts) {
    Word& word = words.emplace_back(Word{{}, count});
    for (unsigned char byte : bytes) word.tokens.push_back(byte_ids[byte]);
  }
  return words;
}

/// Counts how often each pair of neighbours occurs. A merge visits only the places of its pair, so
/// that words may be long.
class PairCounts {
 public:
  explicit PairCounts(std::vector<Word> words) : words_(std::move(words)), lengths_(256, 1) {
    for (std::size_t i = 0; i < words_.size(); ++i)
      for (std::size_t k = 1; k < words_[i].tokens.size(); ++k) count({i, k}, +1);
    queue_changed();
  }

  /// Finds the most frequent pair; ties go to the smallest. False if no pair occurs twice.
  bool most_frequent(Pair& pair) {
    for (; !queue_.empty(); queue_.pop()) {
      auto [occurrences, complement] = queue_.top();
      pair = ~complement;
      if (counts_[pair] == occurrences) return occurrences >= 2;
      // Otherwise the count is outdated, and the newer one is in the queue, too.
    }
    return false;
  }

  /// Replaces `pair` by `result`, the next token, in all words, each from left to right.
  void merge(Pair pair, std::int32_t result) {
    const std::size_t left = lengths_[pair >> 32], right = lengths_[pair & 0xFFFFFFFF];
    lengths_.push_back(left + right);
    for (const auto& [i, k] : std::exchange(places_[pair], {})) {
      auto& tokens = words_[i].tokens;
      // A place is outdated if one of its tokens has become a part of another since.
      if (pair_key(tokens[k - 1], tokens[k]) != pair) continue;
      const std::size_t first = k - left, end = k + right;
      count({i, k}, -1);
      for (const int sign : {-1, +1}) {
        if (sign > 0) tokens[first] = tokens[end - 1] = result;
        if (first > 0) count({i, first}, sign);
        if (end < tokens.size()) count({i, end}, sign);
      }
    }
    queue_changed();
  }

 private:
  using Place = std::pair<std::size_t, std::size_t>;  // a word, and where in it a token begins

  /// Adds (sign +1) or subtracts (-1) the pair of the token at a place and the one before it.
  void count(const Place& place, int sign) {
    const Word& word = words_[place.first];
    const Pair pair = pair_key(word.tokens[place.second - 1], word.tokens[place.second]);
    counts_[pair] += sign * word.count;
    changed_.insert(pair);
    if (sign > 0) places_[pair].push_back(place);
  }

  void queue_changed() {
    for (Pair pair : changed_)
      if (std::int64_t occurrences = counts_[pair]; occurrences > 0)
        queue_.emplace(occurrences, ~pair);
    changed_.clear();
  }

  std::vector<Word> words_;
  std::unordered_map<Pair, std::int64_t> counts_;
  std::vector<std::size_t> lengths_;                     // by token: its bytes
  std::unordered_map<Pair, std::vector<Place>> places_;  // those that have or had the pair
  std::unordered_set<Pair> changed_;
  std::priority_queue<std::pair<std::int64_t, Pair>> queue_;  // (count, ~pair): smaller pair first
};

}  // namespace

BytePairVocabulary train_byte_pairs(std::string_view text, int size) {
  PG_CHECK(size >= 257, "a byte-pair vocabulary of ", counted(size, "token"),
           " is too small: 256 bytes and ", end_of_text, " need 257");
  std::vector<std::string> tokens, merges;
  // GPT-2 numbers the bytes in the order of their symbols.
  std::map<char32_t, int> bytes_by_symbol;
  for (int byte = 0; byte < 256; ++byte)
    bytes_by_symbol[first_code_point(byte_symbols()[byte]).value] = byte;
  std::array<std::int32_t, 256> byte_ids{};
  for (const auto& [symbol, byte] : bytes_by_symbol) {
    byte_ids[byte] = static_cast<std::int32_t>(tokens.size());
    tokens.push_back(byte_symbols()[byte]);
  }

  PairCounts pairs(count_words(text, byte_ids));
  while (static_cast<int>(tokens.size()) < size - 1) {
    Pair pair = 0;
    PG_CHECK(pairs.most_frequent(pair), "the text gives a vocabulary of at most ",
             tokens.size() + 1, " tokens, not ", size, "; use a smaller --size, or more text");
    std::string left = tokens[pair >> 32], right = tokens[pair & 0xFFFFFFFF];
    merges.push_back(left + " " + right);
    pairs.merge(pair, static_cast<std::int32_t>(tokens.size()));
    tokens.push_back(left + right);
  }
  tokens.emplace_back(end_of_text);
  return BytePairVocabulary(std::move(tokens), std::move(merges));
}

}  // namespace plangrad::examples
