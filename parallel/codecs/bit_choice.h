// Bit choice: how many bits each layer of a model gets, so that all layers together are as small as
// possible and not much less exact than with equal bits.
// Not here: measuring (message_codec.h), quantizing.
// Chapter 10; Alimohammadi et al. 2022 (L-GreCo).
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace plangrad::parallel {

/// The size and the error of a layer with one number of bits.
struct BitOption {
  std::int64_t bytes = 0;  ///< encoded size
  double error = 0;        ///< squared, as measured; NaN or infinite if it isn't known

  friend bool operator==(const BitOption&, const BitOption&) = default;
};

struct BitBudget {
  std::size_t uniform = 3;  ///< index of the option that layers would share: 4 bits of 1 to 8
  int steps = 10000;        ///< parts of the allowed error; a layer's error is rounded up to them
};

/// Chooses an option (its index) for each layer, such that
///   sum of bytes is least, of all with  sum of ceil(error / step) <= steps
///   step = allowed / steps
///   allowed = sum of the uniform option's errors (the paper's alpha is 1)
/// Among equally small choices it takes the most exact one, in steps. Rounding up keeps the sum of
/// the true errors within the allowed error. If it excludes all choices that are as small as the
/// uniform one, the uniform one is taken. A layer with an unknown error takes the uniform option
/// and no part in the sums. A layer whose errors are all 0 takes its smallest option.
/// throws: Error if a layer has no such option, or an error is negative
/// source: Alimohammadi et al. 2022, algorithm 1
std::vector<std::size_t> choose_bits(const std::vector<std::vector<BitOption>>& layers,
                                     const BitBudget& budget = {});

/// The options of 1, 2, ..., 8 bits, by layer.
using BitOptions = std::map<std::string, std::vector<BitOption>>;
/// Numbers of bits by layer.
using Bits = std::map<std::string, int>;

/// The errors of ranks that measured the same layer, each its own gradient, added up.
BitOptions summed(const std::vector<BitOptions>& measured);

/// The bits of the adaptive codec: as small as the error of uniform 4 bits allows, by what the
/// ranks measured. The errors of ranks that measured the same layer, each its own gradient, add up.
/// Layers are in the order of their names, so that equal measurements give equal choices.
Bits adaptive_bits(const std::vector<BitOptions>& measured);

}  // namespace plangrad::parallel
