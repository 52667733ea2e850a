// quantize: each value becomes the number of a level between the extremes of its bucket.
// Not here: the kernels (autograd/cpu/quantize.cpp), and rules that give layers other bits
// (bit_choice.cpp). Chapter 10; Markov et al. 2022, "CGX".
#include "parallel/codecs/codec.h"

namespace plangrad::parallel {
namespace {

class Quantized : public Codec {
 public:
  using Codec::Codec;

  bool encode(const Tensor& x, RandomKey key, std::int64_t, const Tensor& bytes) override {
    check_size(x, bytes);
    x.backend().quantize(x, how(), key, bytes);
    return true;
  }
  void decode(const Tensor& bytes, const Tensor& y) const override {
    check_size(y, bytes);
    y.backend().dequantize(bytes, how(), y);
  }

 private:
  Quantizer how() const { return {spec_.bits, spec_.bucket, spec_.stochastic}; }
};

}  // namespace

// The bytes are 2 levels of each bucket, then count BITS bits in 8-byte words.
CodecEntry quantizer(CodecKind kind) {
  kind.encoded_bytes = [](const CodecSpec& spec, std::int64_t count, std::int64_t element) {
    const std::int64_t buckets = (count + spec.bucket - 1) / spec.bucket;
    return 2 * buckets * element + aligned((count * spec.bits + 7) / 8);
  };
  return {kind, made<Codec, Quantized>};
}

// [snippet entry]
CodecEntry quantize_codec() {
  const CodecNumber bits{
      "BITS", &CodecSpec::bits, "the number of bits", "use 1 to 8 bits, such as quantize:4", 1, 8,
      false};
  const CodecNumber stochastic{"stochastic", &CodecSpec::stochastic, "the bucket"};
  return quantizer({.name = "quantize", .numbers = {bits, bucket_number, stochastic}});
}
// [end snippet]

}  // namespace plangrad::parallel
