// CodecSpec: which codec a user asks for, and with which numbers. No tensors: plans carry it.
// Not here: encoding (codec.h). Chapter 10.
#pragma once

#include <cstdint>
#include <string>

namespace paragrad::parallel {

// [snippet spec]
/// As users type them; numbers in brackets may be left out:
///   none
///   bf16                        the upper half of each f32, rounded
///   quantize:BITS[:BUCKET[:stochastic]]   2^BITS levels between each bucket's extremes
///   adaptive[:BUCKET[:PERIOD]]  the same, with bits for each layer, chosen after PERIOD updates
///   topk:FRACTION               the largest values that a message has of each layer
///   threshold:FRACTION[:PERIOD] those above a threshold, which is set anew after PERIOD uses
///   lowrank:RANK                products of two thin matrices (PowerSGD)
///   pca:RANK[:PERIOD]           coefficients on a basis that follows the sums
struct CodecSpec {
  enum class Kind { none, bf16, quantize, adaptive, topk, threshold, lowrank, pca };
  Kind kind = Kind::none;
  int bits = 4;             ///< 1 to 8 (quantize); what adaptive begins with
  int bucket = 1024;        ///< elements (quantize, adaptive)
  bool stochastic = false;  ///< rounding, unbiased; else to the nearest level
  double fraction = 0.01;   ///< of the elements that are sent (topk, threshold)
  int rank = 4;             ///< columns of a factor (lowrank, pca)
  int period = 100;         ///< uses of a threshold or a basis; updates between choices of bits

  friend bool operator==(const CodecSpec&, const CodecSpec&) = default;
};
// [end snippet]

/// throws: Error that says what can be asked for
CodecSpec parse_codec(const std::string& text);
/// Its inverse; numbers that are defaults are printed where another one follows.
std::string print(const CodecSpec& spec);

/// Whether the codec acts on values one buffer at a time, so that any message can be encoded; else
/// it needs a whole group's sum (lowrank, pca).
bool is_local(const CodecSpec& spec);

/// Bytes of `count` values of `element` bytes each, encoded by a local codec.
///   quantize:   2 element buckets + 8-byte words that hold count BITS
///   topk:       (4 + element) k, k = ceil(FRACTION count); threshold: the same, its slots
/// throws: Error if the codec is not local
std::int64_t encoded_bytes(const CodecSpec& spec, std::int64_t count, std::int64_t element);
/// Up to a multiple of 8: codecs write words of 8 bytes.
inline std::int64_t aligned(std::int64_t bytes) { return (bytes + 7) / 8 * 8; }
/// Whether what an encoding leaves out is added to the next values, lest it never arrives (topk,
/// threshold, lowrank, pca).
bool leaves_out(const CodecSpec& spec);
/// Whether a message has the indices of the values that it brings (topk, threshold).
bool is_sparse(const CodecSpec& spec);
/// Values that topk and threshold have room for in a message of `count`, and what their indices
/// take; other codecs have none.
std::int64_t slots(const CodecSpec& spec, std::int64_t count);
std::int64_t index_bytes(const CodecSpec& spec, std::int64_t count);

}  // namespace paragrad::parallel
