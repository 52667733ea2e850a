// Codec: writes values in fewer bytes, and reads them back; the interface of all codecs.
// Not here: where a stage's values lie in messages (message_codec.h), and sums over a group's
// factors (low_rank.h). Chapter 10; Markov et al. 2022 (CGX).
//
// The room parallel/codecs writes values in fewer bytes, on their way between ranks:
// codec.h           a codec of one buffer: plain.cpp, quantize.cpp, sparse.cpp
// low_rank.h        codecs that need a group's sum: power_sgd.cpp, streaming_pca.cpp
// message_codec.h   whole messages: a stage's gradient, layer by layer; activations
// bit_choice.h      quantize with a rule: the bits of each layer, from what ranks measured
// register.cpp      the list of codecs
// A new codec is one file and one line of the register; codecs of one family share a file. An entry
// has a name and numbers as users type them, the bytes of a message, and the class that encodes.
// A new rule for bits is a codec, too: quantizer() makes its entry from its name, numbers and rule.
#pragma once

#include "autograd/backend.h"
#include "nn/models/model.h"
#include "parallel/plan/codec_spec.h"

namespace plangrad::parallel {

using namespace autograd;

// [snippet filter]
/// Whether codecs encode a parameter's gradient: it needs more than one dimension and at least 1024
/// elements. Statistics are not encoded, as they are no gradients.
/// source: Markov et al. 2022
inline bool is_encoded(const nn::Parameter& parameter) {
  return parameter.kind == nn::ParameterKind::weight && parameter.shape.rank() > 1 &&
         parameter.shape.numel() >= 1024;
}
// [end snippet]

/// Advice for the user about values that are infinite or NaN.
inline constexpr const char* when_not_finite =
    "use a lower --learning-rate, a longer --warmup or, except in cyclic-v2, a --clip of 1";

/// Whether all values are finite. Squares of finite f32 values are summed in f64, and finite there.
inline bool all_finite(const Tensor& x) {
  return std::isfinite(x.backend().sums_of_squares({x})[0]);
}

/// throws: Error unless `finite`; `what` begins it: "step 2: the gradient of wte.weight is"
void check_encodable(bool finite, const std::string& what);

/// Memory for a message of encoded values.
inline Tensor room_for_code(std::int64_t bytes, const DevicePtr& device) {
  return empty({bytes}, DType::u8, device, Category::communication);
}

/// The numbers that a codec remembers of each run of values, by the place of its first element.
using CodecMemory = std::map<std::int64_t, std::vector<double>>;

// [snippet codec]
/// Encodes f32 or bf16 values of a layer, or a part of it; on one thread, making no tensors there.
class Codec {
 public:
  explicit Codec(const CodecSpec& spec) : spec_(spec) {}
  virtual ~Codec() = default;

  /// Writes x (n) to `bytes`, u8 (encoded_bytes(n)). `key` gives the random numbers. `place`, the
  /// number of the first element, tells which values these are, for codecs that remember something.
  /// Returns false, and `bytes` is undefined, if x has infinite values or NaNs that the message
  /// can't pass on. Where it can, no device is waited for; the gradient's norm tells of them.
  virtual bool encode(const Tensor& x, RandomKey key, std::int64_t place, const Tensor& bytes) = 0;
  /// Reads y (n) back from `bytes`.
  virtual void decode(const Tensor& bytes, const Tensor& y) const = 0;
  /// Bytes of a message of `count` values.
  std::int64_t encoded_bytes(std::int64_t count, DType dtype) const {
    return parallel::encoded_bytes(spec_, count, size_of(dtype));
  }
  // [end snippet]

  /// The codec's memory, for a checkpoint; empty if it remembers nothing.
  virtual CodecMemory state() const { return {}; }
  virtual void restore(const CodecMemory&) {}

 protected:
  /// throws: Error if x's encoding does not have the size of `bytes`
  void check_size(const Tensor& x, const Tensor& bytes) const {
    const std::int64_t expected = encoded_bytes(x.numel(), x.dtype());
    PG_CHECK(bytes.numel() == expected, "codec ", print(spec_), ": ", x.numel(), " values of ",
             x.dtype(), " take ", expected, " bytes, got room for ", bytes.numel());
  }

  const CodecSpec spec_;
};

/// throws: Error if the codec is not local
std::unique_ptr<Codec> make_codec(const CodecSpec& spec);

/// The size and the error of a layer with one number of bits.
struct BitOption {
  std::int64_t bytes = 0;  ///< encoded size
  double error = 0;        ///< squared, as measured; NaN or infinite if it isn't known

  friend bool operator==(const BitOption&, const BitOption&) = default;
};
/// The options of 1, 2, ..., 8 bits, by layer: what a rank measures, and rules for bits read.
using BitOptions = std::map<std::string, std::vector<BitOption>>;
/// Numbers of bits by layer, as rules for bits return them.
using Bits = std::map<std::string, int>;

// ---- for the files of codecs, and their register ----

class LowRank;

/// A codec as the register lists it: what a plan knows of it, and how it is made. Each codec's file
/// defines a function that gives its entry: topk_codec().
struct CodecEntry : CodecKind {
  using Make = std::unique_ptr<Codec> (*)(const CodecSpec&);
  using MakeLowRank = std::unique_ptr<LowRank> (*)(const CodecSpec&, const nn::ParameterList&,
                                                   std::uint64_t seed, const DevicePtr&);
  Make make = nullptr;                  ///< makes a local codec
  MakeLowRank make_low_rank = nullptr;  ///< makes one that is not local
};

/// The number PERIOD: uses of a threshold or a basis, or updates between choices of bits.
inline constexpr CodecNumber period_number{"PERIOD", &CodecSpec::period, "the period",
                                           "use 1 or more"};
/// The number BUCKET: elements that share their extreme levels.
inline constexpr CodecNumber bucket_number{"BUCKET", &CodecSpec::bucket, "the bucket",
                                           "use 1 element or more, such as 1024"};

/// Makes the entry of a codec that quantizes: all layers with BITS bits or, where the kind has a
/// rule `chooses_bits`, each with its own number of bits.
CodecEntry quantizer(CodecKind kind);

/// Makes a `Made` from its constructor's arguments; an entry points to it. In a browser, plans are
/// checked but nothing is encoded, and so tensors are left out.
template <class Base, class Made, class... With>
std::unique_ptr<Base> made([[maybe_unused]] With... with) {
#ifdef __EMSCRIPTEN__
  throw Error("codecs: a page in a browser has no tensors, so it encodes nothing");
#else
  return std::make_unique<Made>(with...);
#endif
}

}  // namespace plangrad::parallel
