// quantize: 2^BITS levels between each bucket's extremes, the same BITS in every layer.
// Not here: bits that change (adaptive_bits.cpp).
// Chapter 10; Markov et al. 2022, "CGX".
#include "parallel/codecs/quantizer.h"

namespace paragrad::parallel {

// [snippet entry]
CodecEntry quantize_codec() {
  const CodecNumber bits{
      "BITS", &CodecSpec::bits, "the number of bits", "use 1 to 8 bits, such as quantize:4", 1, 8,
      false};
  const CodecNumber stochastic{"stochastic", &CodecSpec::stochastic, "the bucket"};
  return quantizer({.name = "quantize", .numbers = {bits, bucket_number, stochastic}});
}
// [end snippet]

}  // namespace paragrad::parallel
