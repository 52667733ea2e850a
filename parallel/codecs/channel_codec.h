// ChannelCodec: activations and their gradients on their way between stages.
// Not here: gradients of weights (buffer_codec.h). Chapter 10; Gupta et al. 2021 (DCT).
#pragma once

#include "parallel/codecs/codec.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {

// [snippet channel]
/// One rank's. Nothing that an encoding leaves out is added later: the next microbatch is another.
/// Sparse codecs have one mask both ways: the gradient's message has those elements that were sent
/// of the activation, and no indices. Used by one thread at a time.
/// source: Gupta et al. 2021 (dynamic communication thresholding)
class ChannelCodec {
 public:
  /// `source` names the sender in the keys of random numbers.
  ChannelCodec(const CodecSpec& spec, RandomKey source);

  /// Bytes of the message `x` for n values.
  std::int64_t encoded_bytes(const Instruction& x, std::int64_t count, DType dtype) const;
  /// throws: Error that names the value, if it is not finite
  void encode(const Instruction& x, const Tensor& value, const Tensor& bytes);
  void decode(const Instruction& x, const Tensor& bytes, const Tensor& value);
  // [end snippet]

  /// As Codec::state; places are stages.
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

}  // namespace paragrad::parallel
