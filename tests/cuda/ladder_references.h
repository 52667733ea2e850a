// What the ladders compute, in f64 and without any idea; and the sizes to try.
// Not here: the rungs (tutorials/kernels/rungs.h). Chapter 12.
#pragma once

#include "tutorials/kernels/rungs.h"

namespace plangrad::tests {

using Values = std::vector<double>;

struct LadderReference {
  Values (*compute)(const std::vector<Values>& inputs, const cuda::kernels::Sizes& sizes);
  /// One element; whole tiles; sizes past every border of tiles, aligned to 16 bytes and not.
  std::vector<cuda::kernels::Sizes> sizes;
};

/// throws: std::out_of_range if no ladder has this name, or its reference is missing
const LadderReference& ladder_reference(const std::string& ladder);

}  // namespace plangrad::tests
