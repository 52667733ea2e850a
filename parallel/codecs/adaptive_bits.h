// AdaptiveBits: rank 0's part of the adaptive codec: collects what ranks measured, and chooses.
// Not here: the choice itself (bit_choice.h), and measuring (buffer_codec.h). Chapter 10.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/codecs/bit_choice.h"

namespace paragrad::parallel {

/// By layer: what 1, 2, ..., 8 bits would mean for it.
using BitOptions = std::map<std::string, std::vector<BitOption>>;
/// By layer.
using Bits = std::map<std::string, int>;

// [snippet choose]
class AdaptiveBits {
 public:
  /// One rank's. Several may have measured a layer, each its own gradient: their errors add up.
  void add(const BitOptions& measured);
  /// As small as uniform 4 bits allow; begins anew afterwards.
  Bits choose();

 private:
  BitOptions options_;
};
// [end snippet]

}  // namespace paragrad::parallel
