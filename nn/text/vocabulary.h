// Vocabulary: converts text to token ids and back; this file has characters and bytes.
// Not here: byte pairs (nn/text/byte_pair.h), and windows of tokens (nn/data/text_data.h).
// Chapter 02.
//
// The room nn/text turns text into token ids and back, without tensors or devices:
// vocabulary.h     start here: the interface; characters, bytes, and the choice of a vocabulary
// utf8.h           bytes to code points and back, with the checks of the standard
// byte_pair.h      GPT-2's vocabulary: a word starts as bytes, which a list of merges joins; a
//                  program trains one (examples/programs/train_byte_pair.h)
// split_words.cpp  GPT-2's pattern of words; merges never cross words
// tokenizer_files.h  a vocabulary in Hugging Face's files, and back
// A vocabulary never changes, so that ranks share one, and it is saved with a model (to_json), so
// that a checkpoint suffices to write text. Bytes and byte pairs spell any bytes, so every text is
// decoded bit for bit; characters spell only those of their corpus.
// A new kind is a class here, and a line in make_vocabulary and load_vocabulary.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "autograd/error.h"

namespace plangrad::nn {
using namespace autograd;

/// A fixed set of tokens, numbered from 0. It is immutable, so that ranks can share it.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  /// "chars", "bytes" or "byte-pairs".
  virtual std::string name() const = 0;
  /// The number of tokens.
  virtual int size() const = 0;
  /// The ids that spell `text`; decode(encode(text)) == text.
  /// throws: Error if the vocabulary can't spell it
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
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
  explicit CharVocabulary(std::string_view corpus);

  std::string name() const override { return "chars"; }
  int size() const override { return static_cast<int>(characters_.size()); }
  std::vector<std::int32_t> encode(std::string_view text) const override;
  nlohmann::json to_json() const override;

 private:
  std::string bytes_of(std::int32_t token) const override { return characters_[token]; }

  std::vector<std::string> characters_;  // UTF-8, by id
  std::unordered_map<char32_t, std::int32_t> ids_;
};

/// A vocabulary with one token per byte value, which needs no corpus and spells everything.
class ByteVocabulary : public Vocabulary {
 public:
  std::string name() const override { return "bytes"; }
  int size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text) const override;
  nlohmann::json to_json() const override;

 private:
  std::string bytes_of(std::int32_t token) const override { return {static_cast<char>(token)}; }
};

/// Makes the vocabulary that `spec` names: "chars" (of `corpus`), "bytes", or the path of a
/// byte-pair vocab.json with merges.txt beside it, of a tokenizer.json, or of their folder.
/// throws: Error if `spec` is none of these, or if the files are broken
std::unique_ptr<Vocabulary> make_vocabulary(const std::string& spec, std::string_view corpus);

/// Makes the vocabulary that to_json() described.
/// throws: Error if `saved` is not such a description
std::unique_ptr<Vocabulary> load_vocabulary(const nlohmann::json& saved);

}  // namespace plangrad::nn
