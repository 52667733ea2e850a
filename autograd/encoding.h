// What the kernels of codecs and of pruning are asked for, and what they answer.
// Not here: formulas that these kernels share (codes.h), and codecs (parallel/codecs).
// Chapters 10 and 11.
#pragma once

#include <cstdint>

namespace plangrad::autograd {

/// Max-min quantization: 2^bits levels between the extremes of each bucket (Markov et al. 2022).
struct Quantizer {
  int bits = 4;                ///< 1 to 8
  std::int64_t bucket = 1024;  ///< elements; the last bucket may have fewer
  bool stochastic = false;     ///< round at random without bias; else to the nearest level
};

/// The k-th largest magnitude of a tensor's elements.
struct Magnitude {
  double value = 0;        ///< infinite if an element is not finite
  std::int64_t equal = 0;  ///< number of elements with this magnitude among the k largest
};

/// Selects elements for a sparse message, in index order, from `first` to the end and on from 0.
struct Selection {
  double threshold = 0;    ///< selects all elements with |x| > threshold
  std::int64_t equal = 0;  ///< selects this many elements with |x| == threshold, the first ones
  std::int64_t first = 0;
};
/// The result of a selection.
struct Selected {
  bool finite = true;
  std::int64_t left = -1;  ///< first element for which the message had no slot; -1: none
};

}  // namespace plangrad::autograd
