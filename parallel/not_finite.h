// Not finite: what is said of values that have become infinite or NaN, in the same words everywhere.
// Not here: who looks for them (row_run.h, codecs/).
// Chapters 02 and 10.
#pragma once

#include <string>

#include "autograd/error.h"

namespace paragrad::parallel {

/// What a user can do about it.
inline constexpr const char* when_not_finite =
    "use a lower --learning-rate, a longer --warmup or, except in cyclic-v2, a --clip of 1";

/// `what`: "step 2: the gradient of wte.weight is"
/// throws: Error unless it is finite
inline void check_encodable(bool finite, const std::string& what) {
  PG_CHECK(finite, what, " not finite, so there is no code for it; ", when_not_finite);
}

}  // namespace paragrad::parallel
