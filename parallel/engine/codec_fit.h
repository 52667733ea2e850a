// Codec fit: whether a plan's codecs have anything to act on in the model that is trained.
// Not here: what follows from the plan alone (plan_codecs.h).
// Chapter 10.
#pragma once

#include "parallel/engine/training.h"
#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// throws: Error if a codec of the plan's header would change no value of this training
void check_codecs(const Plan& plan, const Training& training);

/// Of stages whose sums leave a rank.
std::vector<Parameter> summed_parameters(const Plan& plan, const Training& training);

/// throws: Error if messages of many values of this type do not become smaller; `flag` asks for it
void check_smaller(const std::string& flag, const CodecSpec& spec, DType dtype);

/// Whether bits are chosen in a run from update `first` to `last` in time to be used. `chosen`:
/// some were before.
/// throws: Error if not, and the codec is adaptive
void check_period(const CodecSpec& spec, int first, int last, bool chosen);

}  // namespace paragrad::parallel
