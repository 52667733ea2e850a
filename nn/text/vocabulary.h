// Vocabulary: text to token ids and back; here by characters and by bytes.
// Not here: byte pairs (nn/text/byte_pair.h), and windows of tokens (nn/data/text_data.h).
// Chapter 02.
//
// The room nn/text turns text into token ids and back, without tensors or devices:
// vocabulary.h     start here: what a vocabulary is; characters, bytes, and the choice among all
// utf8.h           code points out of bytes, with the checks of the standard
// byte_pair.h      GPT-2's vocabulary: a word begins as bytes, which are joined by a list of merges
// split_words.cpp  GPT-2's pattern of words, across which nothing is joined
// A vocabulary never changes, so that ranks share one, and it is saved with a model (to_json), so
// that a checkpoint can write text by itself. Bytes and byte pairs spell any bytes, so every text
// comes back bit for bit; characters spell what their corpus had. Byte pairs are trained by a
// program, which is the training's only user (examples/common/train_byte_pair.h).
// Another kind of vocabulary is a class here, and a line in make_vocabulary and load_vocabulary.
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

namespace paragrad::nn {
using namespace autograd;

/// A fixed set of tokens, numbered from 0. Immutable, so that ranks can share one.
class Vocabulary {
 public:
  virtual ~Vocabulary() = default;

  /// "chars", "bytes" or "byte-pairs".
  virtual std::string name() const = 0;
  /// Number of tokens.
  virtual int size() const = 0;
  /// The ids that spell `text`; decode(encode(text)) == text.
  /// throws: Error if the vocabulary can't spell it
  virtual std::vector<std::int32_t> encode(std::string_view text) const = 0;
  /// The bytes that the ids stand for. One token may be a part of a UTF-8 character.
  /// throws: Error if an id is outside [0, size)
  std::string decode(std::span<const std::int32_t> tokens) const;
  /// What load_vocabulary() makes the same vocabulary from.
  virtual nlohmann::json to_json() const = 0;

 private:
  /// What a token in [0, size) stands for.
  virtual std::string bytes_of(std::int32_t token) const = 0;
};

/// One token per Unicode code point of a corpus, in sorted order, as nanoGPT's character data.
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

/// One token per byte value: needs no corpus, spells everything.
class ByteVocabulary : public Vocabulary {
 public:
  std::string name() const override { return "bytes"; }
  int size() const override { return 256; }
  std::vector<std::int32_t> encode(std::string_view text) const override;
  nlohmann::json to_json() const override;

 private:
  std::string bytes_of(std::int32_t token) const override { return {static_cast<char>(token)}; }
};

/// The vocabulary that a user asks for: "chars" (of `corpus`), "bytes", or the path of a byte-pair
/// vocab.json with merges.txt beside it.
/// throws: Error if it is none of these or its files are broken
std::unique_ptr<Vocabulary> make_vocabulary(const std::string& spec, std::string_view corpus);

/// The vocabulary that to_json() described.
/// throws: Error if `saved` is no such description
std::unique_ptr<Vocabulary> load_vocabulary(const nlohmann::json& saved);

}  // namespace paragrad::nn
