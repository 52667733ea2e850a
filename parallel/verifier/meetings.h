// Meetings: what the replays of single rows leave open: what the members of a group bring together.
// Not here: that they all come (pairing).
// Chapter 05.
#pragma once

#include "parallel/verifier/pairing.h"
#include "parallel/verifier/replay.h"

namespace paragrad::parallel {

/// Reduced sums are whole, norms count every stage, and shards lie in the groups that are asked for
/// them.
/// throws: PlanError, rule sum, norm or shape
void check_meetings(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows);

}  // namespace paragrad::parallel
