// What `plan` draws: a timeline as text, figure, page or trace, also of a wrong plan.
// Not here: how it is drawn (parallel/drawing/draw.h). Chapters 06 to 09.
#pragma once

#include "examples/programs/plan_request.h"

namespace plangrad::examples {

/// The command that was typed, without the file that it writes: a page says how it was made.
std::string typed_command(int argc, char** argv);

/// Draws the plan's timeline as the request asks for it: as text, or into a file. A figure or a
/// page shows where a wrong plan stops.
/// throws: Error if flags contradict each other; PlanError if the plan breaks a rule
void draw_plan(const PlanRequest& request, const parallel::Plan& plan);

}  // namespace plangrad::examples
