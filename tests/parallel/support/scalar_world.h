// Runs a plan on the model of one number per stage, in any order of events that the meaning of
// plans allows. It knows nothing of the verifier, so it can bear witness for or against it.
#pragma once

#include "parallel/plan/plan.h"

namespace plangrad::tests {

struct ScalarOutcome {
  std::map<std::pair<int, int>, double> weights;  ///< made by the last step, by (rank, stage)
  std::map<int, double> losses;                   ///< by microbatch
  friend bool operator==(const ScalarOutcome&, const ScalarOutcome&) = default;
};

/// capacity: of a channel, where a rank waits for each of its messages before it goes on;
///   -1: messages run beside computations, as in the engine
/// throws: std::runtime_error if a value is missing where it is needed, or the ranks wait for each
///   other
ScalarOutcome run_scalar(const parallel::Plan& plan, unsigned seed, int capacity);

}  // namespace plangrad::tests
