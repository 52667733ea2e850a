// What `plan draw` adds to a figure on request: lanes of what ranks hold, shards, a fault.
// Not here: the figure (parallel/drawing/draw.h). Chapters 06 to 09.
#pragma once

#include <string>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/verifier/verify.h"

namespace plangrad::examples {

/// The lanes that --lanes has: "versions" of weights, or all "holdings".
const std::vector<std::string>& lane_names();

/// Adds lanes to a figure, and a note on what ranks hold of a sharded plan.
///   lanes: a name of lane_names(); empty: none
void add_lanes(parallel::FigureOptions& figure, const std::string& lanes,
               const parallel::Plan& plan, const parallel::Timeline& timeline);

/// Writes the figure of a plan up to the cell that breaks a rule. Returns false, and writes
/// nothing, if the rule blames no cell, or one that makes no sense.
bool draw_fault(const std::string& file, const parallel::Plan& plan,
                const parallel::PlanError& error, const parallel::Costs& costs,
                const parallel::FigureOptions& figure);

}  // namespace plangrad::examples
