// Quantizer: what codecs share that send each value as the number of a level: quantize, adaptive.
// Not here: who chooses how many levels there are.
// Chapter 10; Markov et al. 2022, "CGX".
#pragma once

#include "parallel/codecs/register.h"

namespace paragrad::parallel {

inline constexpr CodecNumber bucket_number{"BUCKET", &CodecSpec::bucket, "the bucket",
                                           "use 1 element or more, such as 1024"};

/// An entry whose messages are 2 levels a bucket, then 8-byte words that hold count BITS.
CodecEntry quantizer(CodecKind kind);

}  // namespace paragrad::parallel
