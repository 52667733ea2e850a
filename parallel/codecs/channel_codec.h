// ChannelCodec: activations and their gradients on their way between stages.
// Not here: gradients of weights (buffer_codec.h). Chapter 10; Gupta et al. 2021 (DCT).
#pragma once

#include "parallel/codecs/codec.h"
#include "parallel/plan/plan.h"

namespace plangrad::parallel {

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
