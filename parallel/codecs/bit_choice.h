// The choice of adaptive's rule: bits for each layer, such that messages are as small as the error
// of uniform bits allows. Not here: when bits are chosen (observers/bit_choice.h).
// Chapter 10; Alimohammadi et al. 2022 (L-GreCo).
#pragma once

#include "parallel/codecs/codec.h"

namespace plangrad::parallel {

/// Chooses an option (its index) for each layer, such that
///   sum of bytes is least, of all with  sum of ceil(error / step) <= steps
///   step = allowed / steps
///   allowed = sum of the errors of 4 bits, which are uniform (the paper's alpha is 1)
/// Among equally small choices it takes the most exact one, in steps. Rounding up keeps the sum of
/// the true errors within the allowed error. If it excludes all choices that are as small as the
/// uniform one, the uniform one is taken. A layer with an unknown error takes the uniform option
/// and no part in the sums. A layer whose errors are all 0 takes its smallest option.
/// source: Alimohammadi et al. 2022, algorithm 1
std::vector<std::size_t> choose_bits(const std::vector<std::vector<BitOption>>& layers,
                                     int steps = 10000);

}  // namespace plangrad::parallel
