// BytePairVocabulary: GPT-2's byte-level byte-pair encoding, read from vocab.json and merges.txt.
// Not here: making such a vocabulary from text (examples/programs/train_byte_pair.h).
// Chapter 02; Sennrich et al. 2016, Radford et al. 2019, section 2.2.
#pragma once

#include <map>
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

/// A token that is found in a text before words are split: the longest one at the first place where
/// any begins. Its bytes are its content, not GPT-2's spelling of it.
/// source: Hugging Face, library tokenizers, class AddedToken
struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool single_word = false;             ///< not beside a letter, a digit or an underscore
  bool lstrip = false, rstrip = false;  ///< takes in white space before it, or behind
  bool normalized = false;              ///< looked for where no other added token was found
};

/// The fields that an added token has in tokenizer.json, but for "special".
nlohmann::json to_json(const AddedToken& token);
/// throws: nlohmann::json::exception or Error if a field is missing or makes no sense
AddedToken added_token(const nlohmann::json& saved);

/// A byte-pair vocabulary. A word starts as single bytes; then neighbours whose pair comes first in
/// `merges` are joined, repeatedly, until no pair is listed. It encodes any bytes that it has
/// tokens for, UTF-8 or not; GPT-2's has all 256.
class BytePairVocabulary : public Vocabulary {
 public:
  /// Takes `tokens` by id, and `merges` ("a b"), most important first, in GPT-2's spelling. Added
  /// tokens are among `tokens`; end_of_text is one of them wherever `tokens` has it.
  /// throws: Error if the result of a merge is not a token
  BytePairVocabulary(std::vector<std::string> tokens, std::vector<std::string> merges,
                     const std::vector<AddedToken>& added = {});

  std::string name() const override { return "byte-pairs"; }
  int size() const override { return static_cast<int>(tokens_.size()); }
  int size_without_added() const override;
  void encode_parts(std::string_view text, const TakeTokens& take) const override;
  nlohmann::json to_json() const override;

  const std::vector<std::string>& tokens() const { return tokens_; }
  const std::vector<std::string>& merges() const { return merges_; }
  /// The token that separates documents, if the vocabulary has it.
  std::optional<std::int32_t> separator() const;
  /// The added tokens, by id.
  std::vector<AddedToken> added() const;

 private:
  std::string bytes_of(std::int32_t token) const override { return bytes_[token]; }
  struct Merge {
    std::int32_t left, right, result;
  };
  void add_merge(const std::string& line, const std::unordered_map<std::string, std::int32_t>& ids);
  /// Distinct words of a text, and their tokens.
  using Words = std::unordered_map<std::string_view, std::vector<std::int32_t>>;
  void encode_part(std::string_view text, std::size_t pass, Words& known,
                   const TakeTokens& take) const;
  std::vector<std::int32_t> encode_word(std::string_view word) const;

  std::vector<std::string> tokens_, merges_;        // in GPT-2's spelling
  std::vector<std::string> bytes_;                  // the bytes of each token
  std::array<std::int32_t, 256> byte_ids_{};        // -1: there is no token for the byte
  std::vector<Merge> ranked_;                       // by rank
  std::unordered_map<std::uint64_t, int> rank_of_;  // by pair of ids

  /// Added tokens by content. Those of a pass are looked for between those of the passes before.
  struct Pass : std::map<std::string, AddedToken, std::less<>> {
    const AddedToken* longest_at_start(std::string_view text) const;
    std::array<bool, 256> begins{};  // whether a token begins with this byte
  };
  std::array<Pass, 2> passes_;  // tokens that are not normalized, and those that are
};

/// Reads `vocab_json` and the merges.txt in the same folder, with the tokens that an
/// added_tokens.json or a tokenizer_config.json there adds.
/// throws: Error if a file is missing or broken
BytePairVocabulary read_byte_pairs(const std::filesystem::path& vocab_json);

/// Writes vocab.json and merges.txt to `folder`, and creates it if it is missing.
/// throws: Error if they can't be written
void write_byte_pairs(const BytePairVocabulary& vocabulary, const std::filesystem::path& folder);

/// throws: Error if the folder has a file that a tokenizer is read from
void check_no_tokenizer(const std::filesystem::path& folder);

/// Writes byte pairs in the place of the tokenizer that the folder may have, of which no other file
/// stays. A process that does the same meanwhile waits.
///   overwrite: there may be a tokenizer
/// throws: Error as check_no_tokenizer() unless `overwrite`, and as write_byte_pairs()
void replace_tokenizer(const BytePairVocabulary& vocabulary, const std::filesystem::path& folder,
                       bool overwrite);

}  // namespace plangrad::nn
