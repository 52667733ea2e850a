// quantize: 2^BITS levels between each bucket's extremes, the same BITS in every layer.
// Not here: bits that change (adaptive_bits.cpp).
// Chapter 10; Markov et al. 2022, "CGX".
#include "parallel/codecs/quantizer.h"

namespace paragrad::parallel {

namespace codecs {

// [snippet entry]
CodecEntry quantize() {
  const CodecNumber bits{.word = "BITS",
                         .value = &CodecSpec::bits,
                         .what = "the number of bits",
                         .use = "use 1 to 8 bits, such as quantize:4",
                         .most = 8};
  const CodecNumber stochastic{.word = "stochastic",
                               .value = &CodecSpec::stochastic,
                               .what = "the bucket",
                               .may_lack = true};
  return quantizer({.name = "quantize", .numbers = {bits, bucket_number, stochastic}});
}
// [end snippet]

}  // namespace codecs

}  // namespace paragrad::parallel
