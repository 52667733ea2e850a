// Codec: how a run of values is written in fewer bytes, and read back.
// Not here: which values of a stage are written so (buffer_codec.h), and sums over a group's
// factors (low_rank.h). Chapter 10; Markov et al. 2022 (CGX).
//
// The room parallel/codecs writes values in fewer bytes, on their way between ranks:
// codec.h           a codec of one buffer: quantize, topk, threshold, bf16, each a file of its own
// low_rank.h        codecs that need a group's sum: power_sgd.cpp, streaming_pca.cpp
// buffer_codec.h    a stage's gradient, layer by layer; channel_codec.h: activations
// bit_choice.h      how many bits each layer gets; adaptive_bits.h: who collects what that needs
// register.cpp      the list of codecs
// A new codec is one file and one line of the register: its name and numbers as users type them,
// its bytes, and the class that encodes. No codec includes another.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "autograd/random.h"
#include "autograd/tensor.h"
#include "parallel/plan/codec_spec.h"

namespace paragrad::parallel {

using namespace autograd;

// [snippet codec]
/// The values of one layer, or of a part of it, as f32 or bf16. Used by one thread at a time.
class Codec {
 public:
  virtual ~Codec() = default;

  /// Writes x (n) to `bytes`, u8 (encoded_bytes(n)). Codecs that draw random numbers draw them by
  /// `key`; those that remember something of a run of values know it by `place`, its first element.
  /// Returns whether all of x is finite; if not, `bytes` has no meaning.
  virtual bool encode(const Tensor& x, RandomKey key, std::int64_t place, const Tensor& bytes) = 0;
  /// Reads y (n).
  virtual void decode(const Tensor& bytes, const Tensor& y) const = 0;
  /// Bytes for n values.
  virtual std::int64_t encoded_bytes(std::int64_t count, DType dtype) const = 0;
  /// No value of decode(encode(x)) is farther from x's than this.
  virtual double error_bound(const Tensor& x) const = 0;
  // [end snippet]

  /// The numbers that it remembers of each place, for a checkpoint; none if it remembers nothing.
  virtual std::map<std::int64_t, std::vector<double>> state() const { return {}; }
  virtual void restore(const std::map<std::int64_t, std::vector<double>>&) {}
};

/// A codec that a CodecSpec describes.
class LocalCodec : public Codec {
 public:
  explicit LocalCodec(const CodecSpec& spec) : spec_(spec) {}
  std::int64_t encoded_bytes(std::int64_t count, DType dtype) const final {
    return parallel::encoded_bytes(spec_, count, size_of(dtype));
  }

 protected:
  const CodecSpec& spec() const { return spec_; }
  /// throws: Error if x's encoding does not have the size of `bytes`
  void check_size(const Tensor& x, const Tensor& bytes) const {
    const std::int64_t expected = encoded_bytes(x.numel(), x.dtype());
    PG_CHECK(bytes.numel() == expected, "codec ", print(spec_), ": ", x.numel(), " values of ",
             x.dtype(), " take ", expected, " bytes, got room for ", bytes.numel());
  }

 private:
  CodecSpec spec_;
};

/// throws: Error if the codec is not local
std::unique_ptr<Codec> make_codec(const CodecSpec& spec);

}  // namespace paragrad::parallel
