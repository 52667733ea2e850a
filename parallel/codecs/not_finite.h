// Not finite: values that are infinite or NaN, and what is said of them, in the same words.
// Not here: who looks for them (norms.h, codecs/).
// Chapters 02 and 10.
#pragma once

#include <cmath>
#include <string>

#include "autograd/backend.h"

namespace paragrad::parallel {

/// What a user can do about it.
inline constexpr const char* when_not_finite =
    "use a lower --learning-rate, a longer --warmup or, except in cyclic-v2, a --clip of 1";

/// Squares are summed in f64, where those of finite f32 values are finite.
inline bool all_finite(const autograd::Tensor& x) {
  return std::isfinite(x.backend().sum_of_squares(x));
}

/// `what`: "step 2: the gradient of wte.weight is"
/// throws: Error unless it is finite
inline void check_encodable(bool finite, const std::string& what) {
  PG_CHECK(finite, what, " not finite, so there is no code for it; ", when_not_finite);
}

}  // namespace paragrad::parallel
