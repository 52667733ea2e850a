// Posters of schedules side by side: six of them as an overview, or all.
// Not here: how a poster is drawn (parallel/drawing/poster.h). Chapters 06 and 07.
#pragma once

#include <string>

namespace plangrad::examples {

/// Draws schedules that train on 16 microbatches with four ranks, at equal costs: six schedules
/// with numbers in their cells, or all of the register.
std::string schedule_poster(bool all);

}  // namespace plangrad::examples
