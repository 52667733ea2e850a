// CodecSpec: the codec that a user asks for, with its numbers. CodecKind: what a plan has to know
// about a codec. Plans carry specs, and no tensors.
// Not here: encoding (codec.h), and the list of codecs (codecs/register.cpp). Chapter 10.
#pragma once

#include <cstdint>
#include <map>
#include <variant>

#include "autograd/error.h"

namespace plangrad::parallel {

using autograd::counted;
using autograd::Error;
using autograd::text;

struct BitOption;  // codecs/codec.h
struct CodecKind;

// [snippet spec]
/// A codec as users ask for it. Each kind uses some of the numbers: CodecKind::numbers.
struct CodecSpec {
  std::string name = "none";
  int bits = 4;             ///< 1 to 8 (quantize); adaptive begins with as many
  int bucket = 1024;        ///< elements per bucket (quantize, adaptive)
  bool stochastic = false;  ///< rounds at random without bias, not to the nearest level
  double fraction = 0.01;   ///< share of the elements that are sent (topk, threshold)
  int rank = 4;             ///< columns of a factor (lowrank, pca)
  int period = 100;         ///< uses of a threshold or a basis; updates between choices of bits

  bool is_none() const { return name == "none"; }
  /// throws: Error if there is no such codec
  const CodecKind& kind() const;
  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};
// [end snippet]

/// A number that users type after a colon, or a word that switches an option on.
struct CodecNumber {
  const char* word;  ///< its word in the usage: "BITS"; for an option, the word itself
  std::variant<int CodecSpec::*, double CodecSpec::*, bool CodecSpec::*> value;
  const char* what;                     ///< "the number of bits"; for an option, what precedes it
  const char* use = "";                 ///< "use 1 to 8 bits, such as quantize:4"
  double least = 1, most = 2147483647;  ///< the range of the number
  bool may_lack = true;                 ///< may be left out, with all that follow
};

/// All that a plan has to know about a codec. A file in codecs/ defines each codec.
struct CodecKind {
  using Bytes = std::int64_t (*)(const CodecSpec&, std::int64_t count, std::int64_t element);
  using BitRule = std::map<std::string, int> (*)(
      const std::vector<std::map<std::string, std::vector<BitOption>>>& measured);
  using Indices = std::int64_t (*)(const CodecSpec&, std::int64_t count);

  const char* name;
  std::vector<CodecNumber> numbers = {};
  Bytes encoded_bytes = nullptr;   ///< null: the codec needs a whole group's sum, it is not local
  Indices index_bytes = nullptr;   ///< bytes that tell which values are sent; null: all are sent
  bool leaves_out = false;         ///< what an encoding leaves out is added to the next values
  bool keeps_bf16 = false;         ///< values that are bf16 already are sent unchanged
  BitRule chooses_bits = nullptr;  ///< the bits of each layer anew after each period; null: fixed
  int sums = 1;                    ///< sums of buffers, one after another, that make a group's sum

  /// Whether the codec acts on values one buffer at a time, so that any message can be encoded.
  bool is_local() const { return encoded_bytes != nullptr; }
  /// Whether activations and their gradients can be encoded.
  bool is_for_activations() const { return is_local() && !chooses_bits; }
};

/// All codecs, in the order in which usages list them. Plans read and print codec names but define
/// no codec: this room declares the list, and codecs/register.cpp, one layer above, defines it. So
/// a program that links plans links codecs.
const std::vector<const CodecKind*>& codec_kinds();

using WhichCodecs = bool (*)(const CodecKind&);
inline constexpr WhichCodecs any_codec = [](const CodecKind&) { return true; };
inline constexpr WhichCodecs for_activations = [](const CodecKind& kind) {
  return kind.is_for_activations();
};
/// The codecs as users type them: "none, bf16, quantize:BITS[:BUCKET[:stochastic]], ..."; `last`
/// precedes the last one.
std::string codec_usages(WhichCodecs which = any_codec, const char* last = ", ");
/// Codecs that a message suggests: "quantize, topk, threshold or bf16"; with `numbers`, examples.
std::string codecs_to_use(WhichCodecs which, bool numbers = false);

/// The words between separators, empty ones too: "a", "" and "b" of "a,,b".
std::vector<std::string> split(const std::string& text, char separator);

/// Reads a codec as users type it: "quantize:4". throws: Error that says what can be typed
CodecSpec parse_codec(const std::string& text);
/// Prints a codec as parse_codec reads it; a default number appears only if another one follows.
std::string print(const CodecSpec& spec);

inline bool is_local(const CodecSpec& spec) { return spec.kind().is_local(); }
inline bool leaves_out(const CodecSpec& spec) { return spec.kind().leaves_out; }

/// Bytes of `count` values of `element` bytes each, encoded by a local codec.
/// throws: Error if the codec is not local
std::int64_t encoded_bytes(const CodecSpec& spec, std::int64_t count, std::int64_t element);
/// Rounds bytes up to a multiple of 8, as codecs write words of 8 bytes.
inline std::int64_t aligned(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }
/// Bytes of the indices in a message of `count` values; 0 if it has none.
std::int64_t index_bytes(const CodecSpec& spec, std::int64_t count);

}  // namespace plangrad::parallel
