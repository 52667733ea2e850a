// The first computation that a measured update had later than its plan, and why.
// Not here: where the time of all ranks goes (simulation/breakdown.h). Chapter 06.
#pragma once

#include <optional>
#include <string>

#include "parallel/simulation/breakdown.h"

namespace plangrad::parallel {

/// The time of one update: from its first forward, on any rank, until all have computed and
/// stepped.
struct UpdateSpan {
  int version = 0;  ///< that the update makes
  double begin = 0, end = 0;
};
UpdateSpan span_of_update(const Plan& plan, const Timeline& timeline, int version);

/// A computation in words that stand alone: "backward 9", "update 3".
std::string words_of(const Instruction& computation);

struct Late {
  int rank = 0;
  Instruction computation;
  double begin = 0;    ///< seconds since the plan began, measured
  double seconds = 0;  ///< that it ended later than planned, both since the update's begin
  std::string why;     ///< "waited for the output of stage 0 for microbatch 9 from rank 1"
};

/// The computation of the update that began first of those that ended a quarter of a time step or
/// more too late; none if all were in time.
///   graph: of `measured`; planned: simulated, of the same plan
///   spans: of one update in the two timelines
std::optional<Late> first_late(const Plan& plan, const WaitGraph& graph, const Timeline& measured,
                               const UpdateSpan& span, const Timeline& planned,
                               const UpdateSpan& planned_span);

}  // namespace plangrad::parallel
