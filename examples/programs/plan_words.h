// What the verifier has proved of a plan, in sentences.
// Not here: the facts as a table and for programs (examples/pages/plan_facts.h).
// Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/verifier/verify.h"

namespace plangrad::examples {

/// One sentence for each thing that users ask about a plan: deadlock, sums of gradients, versions,
/// staleness, and what ranks keep.
std::vector<std::string> sentences(const parallel::VerifiedPlan& verified);

}  // namespace plangrad::examples
