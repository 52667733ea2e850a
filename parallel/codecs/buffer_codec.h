// BufferCodec: a stage's flat gradient on the wire. Large matrices go through a codec, layer by
// layer; biases, norms and other small ones travel as they are, behind them.
// Not here: the codecs (codec.h), and when a sum is encoded (collective_run.h, sum_book.cpp).
// Chapter 10; Markov et al. 2022 (CGX).
#pragma once

#include <vector>

#include "parallel/codecs/bit_choice.h"
#include "parallel/codecs/codec.h"
#include "parallel/collectives/collective_run.h"

namespace paragrad::parallel {

/// One rank's, for one stage.
class BufferCodec : public PieceCodec {
 public:
  /// `parameters` must outlive it. `source` names the sender in the keys of random numbers.
  BufferCodec(const nn::ParameterList& parameters, const CodecSpec& spec, RandomKey source,
              const DevicePtr& device);

  /// A message is each encoded part, up to a multiple of 8 bytes, and then the rest.
  std::int64_t encoded_bytes(Range range) const override;
  /// With error feedback, what the range's last encoding left out is added before.
  /// throws: Error that names the layer, if a value is not finite
  void encode(const Tensor& values, Range range, int version, bool take_back,
              const Tensor& bytes) override;
  void decode(const Tensor& bytes, Range range, const Tensor& values) const override;

  /// What 1, 2, ..., 8 bits would mean for each layer that is encoded, with these values of all.
  /// Changes nothing.
  BitOptions bit_options(const Tensor& values) const;
  /// Layers that are named have these bits from now on. They begin with CodecSpec::bits.
  void set_bits(const Bits& bits);

  /// What encodings left out so far: flat, as the gradient. Undefined where nothing is left out.
  const Tensor& residual() const { return residual_; }
  /// What codecs remember, by the place in the flat buffer.
  CodecMemory state() const;
  void restore(const CodecMemory& state);

 private:
  struct Layer {
    const nn::Parameter* parameter;
    Range range;                   // in the flat buffer
    std::unique_ptr<Codec> codec;  // null: travels as it is
  };
  /// Calls visit(layer, what it has of the range), first with those that are encoded.
  template <class Visit>
  void for_each_part(Range range, Visit visit) const;

  CodecSpec spec_;
  RandomKey source_;
  std::vector<Layer> layers_;
  Tensor residual_;
};

}  // namespace paragrad::parallel
