// Hang: whether a plan gets to its end if channels hold only so many messages.
// A rank has one lane here, where the engine has two. It waits for more than those would, so a plan
// that gets to its end here does so there. Not here: what is computed (replay).
// Chapter 06.
#pragma once

#include "parallel/verifier/pairing.h"
#include "parallel/verifier/replay.h"

namespace paragrad::parallel {

/// The smallest number of messages that each channel must hold. With 0, a send waits for its recv.
/// waits: by rank
/// throws: PlanError, rule hang, if no number is large enough
int smallest_capacity(const Plan& plan, const Pairing& pairing,
                      const std::vector<const Waits*>& waits);

}  // namespace paragrad::parallel
