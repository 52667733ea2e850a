// BytePairVocabulary: GPT-2's byte-level byte-pair encoding, read from vocab.json and merges.txt.
// Not here: making such a vocabulary from text (examples/programs/train_byte_pair.h).
// Chapter 02; Sennrich et al. 2016, Radford et al. 2019, section 2.2.
#pragma once

#include <functional>
#include <optional>

#include "nn/text/vocabulary.h"

namespace plangrad::nn {

/// The characters that spell bytes in GPT-2's files: byte_symbols()[byte] is one visible character,
/// "Ġ" for a space and "Ċ" for a line feed.
const std::array<std::string, 256>& byte_symbols();

/// Separates documents; it is one token wherever it occurs in text, if the vocabulary has it.
inline constexpr std::string_view end_of_text = "<|endoftext|>";

/// Packs two token ids into one number, so that pairs sort by left, then right.
inline std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | static_cast<std::uint32_t>(right);
}

/// Calls `take` for each word of `text` by GPT-2's pattern, in order; byte pairs never cross words.
/// The words concatenated are the text. A stretch of bytes that are not valid UTF-8 is one word.
/// The time is linear in the length of `text`.
/// source: Radford et al. 2019, section 2.2, and the pattern of the published encoder
void split_words(std::string_view text, const std::function<void(std::string_view)>& take);

/// A byte-pair vocabulary. A word starts as single bytes; then neighbours whose pair comes first in
/// `merges` are joined, repeatedly, until no pair is listed. It encodes any bytes, UTF-8 or not.
class BytePairVocabulary : public Vocabulary {
 public:
  /// Takes `tokens` by id, and `merges` ("a b"), most important first, in GPT-2's spelling.
  /// throws: Error if one of the 256 bytes or the result of a merge is not a token
  BytePairVocabulary(std::vector<std::string> tokens, std::vector<std::string> merges);

  std::string name() const override { return "byte-pairs"; }
  int size() const override { return static_cast<int>(tokens_.size()); }
  std::vector<std::int32_t> encode(std::string_view text) const override;
  nlohmann::json to_json() const override;

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::string>& merges() const { return merges_; }
  /// The token that separates documents, if the vocabulary has it.
  std::optional<std::int32_t> separator() const {
    return end_of_text_ < 0 ? std::nullopt : std::optional(end_of_text_);
  }

 private:
  std::string bytes_of(std::int32_t token) const override { return bytes_[token]; }
  struct Merge {
    std::int32_t left, right, result;
  };
  void add_merge(const std::string& line, const std::unordered_map<std::string, std::int32_t>& ids);
  void encode_words(std::string_view text, std::vector<std::int32_t>& tokens) const;
  std::vector<std::int32_t> encode_word(std::string_view word) const;

  std::vector<std::string> tokens_, merges_;  // in GPT-2's spelling
  std::vector<std::string> bytes_;            // the bytes of each token
  std::array<std::int32_t, 256> byte_ids_{};
  std::vector<Merge> ranked_;                       // by rank
  std::unordered_map<std::uint64_t, int> rank_of_;  // by pair of ids
  std::int32_t end_of_text_ = -1;                   // -1: not in the vocabulary
};

/// Reads `vocab_json` and the merges.txt in the same folder.
/// throws: Error if a file is missing or broken
BytePairVocabulary read_byte_pairs(const std::filesystem::path& vocab_json);

/// Writes vocab.json and merges.txt to `folder`, and creates it if it is missing.
/// throws: Error if they can't be written
void write_byte_pairs(const BytePairVocabulary& vocabulary, const std::filesystem::path& folder);

}  // namespace plangrad::nn
