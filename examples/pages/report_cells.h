// The computations of recorded updates for a page's timeline: measured and simulated times, what
// each of them waited for, and which was the first to be later than simulated, and why.
// Not here: how the page draws them (examples/pages/report/), and where the time of all ranks goes
// (simulation/breakdown.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/simulation/breakdown.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

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
  double seconds = 0;  ///< that it ended later than simulated, both since the update's begin
  std::string why;     ///< "waited for the output of stage 0 for microbatch 9 from rank 1"
};

/// The computation of the update that began first of those that ended a quarter of a time step or
/// more too late; none if all were in time.
///   graph: of `measured`; simulated: of the same plan
///   spans: of one update in the two timelines
std::optional<Late> first_late(const Plan& plan, const WaitGraph& graph, const Timeline& measured,
                               const UpdateSpan& span, const Timeline& simulated,
                               const UpdateSpan& simulated_span);

/// {"tick" (seconds), "rows": [{"rank", "same": ranks with equal rows, "cells": instructions as
/// text, "measured" and "simulated": for each cell the ticks from the end of the one before to its
/// begin, and those that it takes, "waits": [cell, ticks for another rank, in messages, in
/// collectives, what it waited for]}], "left_out": what is not here, in words}.
/// If a page can't show all cells, only those of `update` and close to it in time stay; if those
/// are too many as well, every n-th row stays.
nlohmann::json cells_json(const Plan& plan, const Timeline& measured, const Timeline& simulated,
                          const UpdateSpan& update);

}  // namespace plangrad::examples
