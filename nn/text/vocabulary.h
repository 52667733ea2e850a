// Vocabulary: converts text to token ids and back; this file has characters and bytes, the UTF-8
// that they are written in, the files of Hugging Face's AutoTokenizer, and the choice of the next
// token from a model's logits.
// Not here: byte pairs (nn/text/byte_pair.h), and windows of tokens (nn/data/text_data.h).
// Chapter 02; RFC 3629; Hugging Face, library tokenizers.
//
// The room nn/text turns text into token ids and back, without tensors or devices:
// vocabulary.h  start here: the interface; characters, bytes, and the choice of a vocabulary;
//               tokenizer_files.cpp has the files of other programs
// byte_pair.h   GPT-2's vocabulary: a word starts as bytes, which a list of merges joins; merges
//               never cross words. A program trains one (examples/programs/train_byte_pair.h)
// A vocabulary never changes, so that ranks share one, and it is saved with a model (to_json), so
// that a checkpoint suffices to write text. Bytes and byte pairs spell any bytes, so every text is
// decoded bit for bit; characters spell only those of their corpus.
// A new kind is a class here, and a line in make_vocabulary and load_vocabulary.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>

#include "autograd/random.h"

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

using namespace autograd;

/// A fixed set of tokens, numbered from 0. It is immutable, so that ranks can share it.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  /// "chars", "bytes" or "byte-pairs".
  virtual std::string name() const = 0;
  /// The number of tokens.
  virtual int size() const = 0;
  /// The number of tokens before those that were added to the end. A model may have fewer rows than
  /// size(), but not fewer than this.
  virtual int size_without_added() const { return size(); }
  /// The ids that spell `text`; decode(encode(text)) == text, but for white space that an added
  /// token takes in (byte_pair.h).
  /// throws: Error if the vocabulary can't spell it
  std::vector<std::int32_t> encode(std::string_view text) const;
  /// Hands on the ids that spell `text`, some at a time, so that a large text needs little memory.
  using TakeTokens = std::function<void(std::span<const std::int32_t>)>;
  virtual void encode_parts(std::string_view text, const TakeTokens& take) const = 0;
  /// The bytes that the ids spell. One token may be a part of a UTF-8 character.
  /// throws: Error if an id is outside [0, size)
  std::string decode(std::span<const std::int32_t> tokens) const;
  /// A description from which load_vocabulary() makes the same vocabulary.
  virtual nlohmann::json to_json() const = 0;

 private:
  /// The bytes of a token in [0, size).
  virtual std::string bytes_of(std::int32_t token) const = 0;
};

/// A vocabulary with one token per Unicode code point of a corpus, sorted, as in nanoGPT's data.
class CharVocabulary : public Vocabulary {
 public:
  /// throws: Error, with the offset, if the corpus is empty or not valid UTF-8
  explicit CharVocabulary(std::string_view corpus, std::string_view more = {});

  std::string name() const override { return "chars"; }
  int size() const override { return static_cast<int>(characters_.size()); }
  void encode_parts(std::string_view text, const TakeTokens& take) const override;
  nlohmann::json to_json() const override;

 private:
  std::string bytes_of(std::int32_t token) const override { return characters_[token]; }

  std::vector<std::string> characters_;  // UTF-8, by id
  std::vector<std::int32_t> ids_;        // by code point; -1: not in the vocabulary
};

/// A vocabulary with one token per byte value, which needs no corpus and spells everything.
class ByteVocabulary : public Vocabulary {
 public:
  std::string name() const override { return "bytes"; }
  int size() const override { return 256; }
  void encode_parts(std::string_view text, const TakeTokens& take) const override;
  nlohmann::json to_json() const override;

 private:
  std::string bytes_of(std::int32_t token) const override { return {static_cast<char>(token)}; }
};

/// Makes the vocabulary that `spec` names: "chars" (of `corpus` and `more`), "bytes", or the path
/// of a byte-pair vocab.json with merges.txt beside it, of a tokenizer.json, or of their folder.
/// throws: Error if `spec` is none of these, or if the files are broken
std::unique_ptr<Vocabulary> make_vocabulary(const std::string& spec, std::string_view corpus,
                                            std::string_view more = {});

/// Makes the vocabulary that to_json() described.
/// throws: Error if `saved` is not such a description
std::unique_ptr<Vocabulary> load_vocabulary(const nlohmann::json& saved);

/// Writes tokenizer.json and tokenizer_config.json to the folder, which must exist: AutoTokenizer
/// gives the same ids for the same text. Byte pairs also get GPT-2's vocab.json and merges.txt. A
/// vocabulary of bytes is written as byte pairs without merges.
///   context: tokens that the model can see
void write_tokenizer(const Vocabulary& vocabulary, const std::filesystem::path& folder,
                     int context);

/// A tokenizer is intact, and of a kind that plangrad does not encode alike.
struct OtherTokenizer : Error {
  using Error::Error;
};

/// Reads a vocabulary from a folder: from tokenizer.json, or else vocab.json with merges.txt.
/// throws: Error if it has neither, or if read_tokenizer_json() throws
std::unique_ptr<Vocabulary> read_tokenizer(const std::filesystem::path& folder);

/// Reads a tokenizer.json: byte pairs in GPT-2's spelling, split into words by GPT-2's pattern, or
/// one token for each character. Byte pairs have its added tokens, and those of a
/// tokenizer_config.json or an added_tokens.json in the same folder. Tokens that have a role there
/// or in special_tokens_map.json, such as pad_token, are added tokens, too, with the next ids if
/// they are missing; and so is <|endoftext|> if the tokenizer's class is GPT-2's, or if the folder
/// has a GPT-2's config.json and no class is named.
/// throws: OtherTokenizer if the file, or the class that is named beside it, describes another
///         kind; it names what differs. Error if a file is damaged
std::unique_ptr<Vocabulary> read_tokenizer_json(const std::filesystem::path& file);

struct SampleSettings {
  double temperature = 0.8;  ///< 0: always the likeliest token
  int top_k = 0;             ///< choose among the likeliest only; 0: among all
};

/// Draws a token from softmax(logits / temperature), with random number `index` of `key`.
/// throws: Error if a setting is negative, or a logit is not finite
/// source: Fan, Lewis and Dauphin 2018, section 5.4 (top-k)
std::int32_t sample_token(const std::vector<double>& logits, const SampleSettings& settings,
                          RandomKey key, std::uint64_t index);

}  // namespace plangrad::nn
