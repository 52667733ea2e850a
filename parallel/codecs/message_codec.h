// Codecs of whole messages. BufferCodec: a stage's flat gradient. Large matrices go through a
// codec, layer by layer; biases, norms and other small ones travel as they are, behind them.
// ChannelCodec: activations and their gradients on their way between stages.
// Not here: the codecs (codec.h), and when a sum is encoded (collective_run.h, sum_book.cpp).
// Chapter 10; Markov et al. 2022 (CGX); Gupta et al. 2021 (DCT).
#pragma once

#include "parallel/codecs/codec.h"
#include "parallel/collectives/collective_run.h"
#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// One rank's codec of one stage's gradient.
class BufferCodec : public PieceCodec {
 public:
  /// `parameters` must outlive it. `source` names the sender in the keys of random numbers.
  BufferCodec(const nn::ParameterList& parameters, const CodecSpec& spec, RandomKey source,
              const DevicePtr& device);

  /// A message holds each encoded part, padded to a multiple of 8 bytes, and then the other parts.
  std::int64_t encoded_bytes(Range range) const override;
  /// With error feedback, first adds what the last encoding of the range left out.
  /// throws: Error that names the layer, if a value is not finite
  void encode(const Tensor& values, Range range, int version, bool take_back,
              const Tensor& bytes) override;
  void decode(const Tensor& bytes, Range range, const Tensor& values) const override;

  /// Measures 1 to 8 bits for each encoded layer of `values`, the flat gradient; changes nothing.
  BitOptions bit_options(const Tensor& values) const;
  /// Sets the bits of the named layers from now on. All layers begin with CodecSpec::bits.
  void set_bits(const Bits& bits);

  /// The values left out so far, flat like the gradient; undefined if the codec leaves nothing out.
  const Tensor& residual() const { return residual_; }
  /// The memory of the layers' codecs, by the place in the flat gradient.
  CodecMemory state() const;
  void restore(const CodecMemory& state);

 private:
  struct Layer {
    const nn::Parameter* parameter;
    Range range;                   // in the flat buffer
    std::unique_ptr<Codec> codec;  // null: travels as it is
  };
  /// Calls visit(layer, its part of the range, place in the message), first for encoded layers.
  template <class Visit>
  void for_each_part(Range range, Visit visit) const;

  CodecSpec spec_;
  RandomKey source_;
  std::vector<Layer> layers_;
  Tensor residual_;
};

// [snippet channel]
/// Encodes a rank's messages of activations and their gradients, without error feedback: the next
/// microbatch has other values. Sparse codecs use one mask both ways: the gradient's message has
/// the elements that were sent of the activation, and no indices. One thread at a time uses it.
/// source: Gupta et al. 2021 (dynamic communication thresholding)
class ChannelCodec {
 public:
  /// `source` names the sender in the keys of random numbers.
  ChannelCodec(const CodecSpec& spec, RandomKey source);

  /// Bytes of the message `x`, which brings `count` values.
  std::int64_t encoded_bytes(const Instruction& x, std::int64_t count, DType dtype) const;
  /// throws: Error that names the value, if it is not finite
  void encode(const Instruction& x, const Tensor& value, const Tensor& bytes);
  void decode(const Instruction& x, const Tensor& bytes, const Tensor& value);
  // [end snippet]

  /// The codec's memory, as Codec::state() gives it; places are stages.
  CodecMemory state() const { return codec_->state(); }
  void restore(const CodecMemory& state) { codec_->restore(state); }

 private:
  bool has_mask(const Instruction& x) const {
    return sparse_ && x.what == Value::activation_gradient;
  }
  Tensor take_mask(const Instruction& x);

  CodecSpec spec_;
  bool sparse_;
  RandomKey source_;
  std::unique_ptr<Codec> codec_;
  std::map<std::pair<int, int>, Tensor> masks_;  // activations' messages, by stage and microbatch
};

}  // namespace plangrad::parallel
