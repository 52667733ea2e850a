// Filter: which parameters' gradients a codec acts on, so that all codecs agree.
// Not here: codecs that find a matrix too small for their factors (low_rank.h).
// Chapter 10; Markov et al. 2022 (CGX).
#pragma once

#include "nn/models/parameter.h"

namespace paragrad::parallel {

// [snippet filter]
/// More than one dimension and at least 1024 elements; statistics are no gradients.
/// source: Markov et al. 2022
inline bool is_encoded(const nn::Parameter& parameter) {
  return parameter.kind == nn::ParameterKind::weight && parameter.shape.rank() > 1 &&
         parameter.shape.numel() >= 1024;
}
// [end snippet]

}  // namespace paragrad::parallel
