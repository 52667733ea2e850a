// What the ladders compute, in f64 and without any idea; and the sizes to try.
// Not here: the rungs (cuda/ladder/rungs.h). Chapter 12.
#pragma once

#include <vector>

#include "cuda/ladder/rungs.h"

namespace plangrad::tests {

using Values = std::vector<double>;

struct LadderReference {
  Values (*compute)(const std::vector<Values>& inputs, const cuda::ladder::Sizes& sizes);
  /// One element; whole tiles; sizes past every border of tiles, aligned to 16 bytes and not.
  std::vector<cuda::ladder::Sizes> sizes;
};

/// throws: std::out_of_range if no ladder has this name, or its reference is missing
const LadderReference& ladder_reference(const std::string& ladder);

}  // namespace plangrad::tests
