// quantize and adaptive: each value becomes the number of a level between the extremes of its
// bucket. Adaptive's bits differ from layer to layer. Not here: the kernels
// (autograd/cpu/quantize.cpp), and how bits are chosen (bit_choice.cpp).
// Chapter 10; Markov et al. 2022, "CGX".
#include "parallel/codecs/codec.h"

namespace plangrad::parallel {
namespace {

class Quantized : public Codec {
 public:
  using Codec::Codec;

  bool encode(const Tensor& x, RandomKey key, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    return x.backend().quantize(x, how(), key, bytes);
  }
  void decode(const Tensor& bytes, const Tensor& y) const override {
    check_size(y, bytes);
    y.backend().dequantize(bytes, how(), y);
  }

 private:
  Quantizer how() const { return {spec_.bits, spec_.bucket, spec_.stochastic}; }
};

/// The number BUCKET: elements that share their extreme levels.
constexpr CodecNumber bucket_number{"BUCKET", &CodecSpec::bucket, "the bucket",
                                    "use 1 element or more, such as 1024"};

/// An entry whose messages hold 2 levels per bucket, then count BITS bits in 8-byte words.
CodecEntry quantizer(CodecKind kind) {
  kind.encoded_bytes = [](const CodecSpec& spec, std::int64_t count, std::int64_t element) {
    const std::int64_t buckets = (count + spec.bucket - 1) / spec.bucket;
    return 2 * buckets * element + aligned((count * spec.bits + 7) / 8);
  };
  return {kind, made<Codec, Quantized>};
}

}  // namespace

// [snippet entry]
CodecEntry quantize_codec() {
  const CodecNumber bits{
      "BITS", &CodecSpec::bits, "the number of bits", "use 1 to 8 bits, such as quantize:4", 1, 8,
      false};
  const CodecNumber stochastic{"stochastic", &CodecSpec::stochastic, "the bucket"};
  return quantizer({.name = "quantize", .numbers = {bits, bucket_number, stochastic}});
}
// [end snippet]

CodecEntry adaptive_codec() {
  return quantizer({.name = "adaptive",
                    .numbers = {bucket_number, period_number},
                    .chooses_bits = adaptive_bits});
}

}  // namespace plangrad::parallel
