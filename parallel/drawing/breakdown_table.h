// A breakdown as a table, in words and as JSON.
// Not here: how the time is divided (simulation/breakdown.h). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/simulation/breakdown.h"

namespace plangrad::parallel {

/// Names and times, one for each row of a table.
using NamedParts = std::vector<std::pair<std::string, TimeParts>>;

/// A row for each name, with seconds and shares of the row's total: "24 s (72.7%)".
Table breakdown_table(const std::string& title, const NamedParts& rows);
/// A row for each rank, and one for all; only the latter if there are more than 16 ranks.
NamedParts rows_of(const Breakdown& breakdown);

/// A table as lines of text, with columns below each other.
std::string print(const Table& table);

/// A path in words, without what it has nothing of:
///   24 s: 20 s compute, 4 s collectives; 9 computations, 2 collectives, on 1 rank
std::string describe(const CriticalPath& path);

/// Seconds by part, of all ranks and of each.
nlohmann::json to_json(const Breakdown& breakdown);
/// Seconds by part, and the numbers of instructions.
nlohmann::json to_json(const CriticalPath& path);

}  // namespace plangrad::parallel
