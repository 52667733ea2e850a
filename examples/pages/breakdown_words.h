// A breakdown as a table of text, and the critical path in words and as JSON.
// Not here: how the time is divided (parallel/simulation/breakdown.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/simulation/breakdown.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// Lines of text with columns below each other: the names of the parts, then a row for each rank,
/// and one for all; only the latter if there are more than 16 ranks. Cells have seconds and the
/// share of the row's total: "24 s (72.7%)".
std::string breakdown_table(const Breakdown& breakdown);

/// A path in words, without what it has nothing of:
///   24 s: 20 s compute, 4 s collectives; 9 computations, 2 collectives, on 1 rank
std::string describe(const CriticalPath& path);

/// Seconds by part, and the numbers of instructions.
nlohmann::json to_json(const CriticalPath& path);

}  // namespace plangrad::examples
