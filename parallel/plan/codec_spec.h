// CodecSpec: which codec a user asks for, and with which numbers. CodecKind: what a plan has to
// know of a codec. No tensors: plans carry specs.
// Not here: encoding (codec.h), and the list of codecs (codecs/register.cpp). Chapter 10.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

namespace paragrad::parallel {

struct CodecKind;

// [snippet spec]
/// A codec as users ask for it. Each kind uses some of the numbers: CodecKind::numbers.
struct CodecSpec {
  std::string name = "none";
  int bits = 4;             ///< 1 to 8 (quantize); what adaptive begins with
  int bucket = 1024;        ///< elements (quantize, adaptive)
  bool stochastic = false;  ///< rounding, unbiased; else to the nearest level
  double fraction = 0.01;   ///< of the elements that are sent (topk, threshold)
  int rank = 4;             ///< columns of a factor (lowrank, pca)
  int period = 100;         ///< uses of a threshold or a basis; updates between choices of bits

  bool is_none() const { return name == "none"; }
  /// throws: Error if there is no such codec
  const CodecKind& kind() const;
  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};
// [end snippet]

/// A number as users type it behind a colon, or a word for a yes.
struct CodecNumber {
  const char* word;  ///< in the usage: "BITS"; the word itself for a yes
  std::variant<int CodecSpec::*, double CodecSpec::*, bool CodecSpec::*> value;
  const char* what;                     ///< "the number of bits"; for a yes: what stands before it
  const char* use = "";                 ///< "use 1 to 8 bits, such as quantize:4"
  double least = 1, most = 2147483647;  ///< that make sense
  bool may_lack = true;                 ///< and so may those that follow
};

/// What a plan has to know of a codec. A file of codecs/ defines each.
struct CodecKind {
  using Bytes = std::int64_t (*)(const CodecSpec&, std::int64_t count, std::int64_t element);
  using Indices = std::int64_t (*)(const CodecSpec&, std::int64_t count);

  const char* name;
  std::vector<CodecNumber> numbers = {};
  Bytes encoded_bytes = nullptr;  ///< null: the codec needs a whole group's sum, it is not local
  Indices index_bytes = nullptr;  ///< of the values that a message brings; null: it brings all
  bool leaves_out = false;        ///< what an encoding leaves out is added to the next values
  bool keeps_bf16 = false;        ///< values that are bf16 already travel as they are
  bool chooses_bits = false;      ///< for each layer of a gradient, anew after each period

  /// Whether the codec acts on values one buffer at a time, so that any message can be encoded.
  bool is_local() const { return encoded_bytes != nullptr; }
  /// Whether activations and their gradients can be encoded.
  bool is_for_activations() const { return is_local() && !chooses_bits; }
};

/// All codecs, in the order in which users read of them. Plans read and print their names but know
/// none, so that this room declares the list and codecs/register.cpp, which stands above, defines
/// it: a program that links plans links codecs.
const std::vector<const CodecKind*>& codec_kinds();

using WhichCodecs = bool (*)(const CodecKind&);
inline constexpr WhichCodecs any_codec = [](const CodecKind&) { return true; };
inline constexpr WhichCodecs for_activations = [](const CodecKind& kind) {
  return kind.is_for_activations();
};
/// What users can type: "none, bf16, quantize:BITS[:BUCKET[:stochastic]], ..."; `last` stands
/// before the last one.
std::string codec_usages(WhichCodecs which = any_codec, const char* last = ", ");
/// Names to try instead of another codec's: "quantize, topk, threshold or bf16". With `numbers`,
/// they are examples.
std::string codecs_to_use(WhichCodecs which, bool numbers = false);

/// throws: Error that says what can be asked for
CodecSpec parse_codec(const std::string& text);
/// The inverse of parse_codec; numbers that are defaults are printed where another one follows.
std::string print(const CodecSpec& spec);

inline bool is_local(const CodecSpec& spec) { return spec.kind().is_local(); }
inline bool leaves_out(const CodecSpec& spec) { return spec.kind().leaves_out; }

/// Bytes of `count` values of `element` bytes each, encoded by a local codec.
/// throws: Error if the codec is not local
std::int64_t encoded_bytes(const CodecSpec& spec, std::int64_t count, std::int64_t element);
/// Bytes up to a multiple of 8: codecs write words of 8 bytes.
inline std::int64_t aligned(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }
/// Bytes that the indices take of a message of `count` values; 0 if it has none.
std::int64_t index_bytes(const CodecSpec& spec, std::int64_t count);

}  // namespace paragrad::parallel
