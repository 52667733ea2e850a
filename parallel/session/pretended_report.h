// What a report says of the devices and links that a run pretended to have.
// Not here: the report itself (run_report.h). Chapter 06.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "parallel/simulation/pretended.h"

namespace plangrad::parallel {

/// Computations of a session that had a pretended time, and those that took longer.
struct PretendedCount {
  std::int64_t computations = 0, late = 0;
};

/// For summary.json: what is pretended, in seconds and bytes per second, and the counts.
nlohmann::json summary_of(const Pretended& pretended, const PretendedCount& count);
/// For report.html: names and values.
std::vector<std::pair<std::string, std::string>> facts_of(const Pretended& pretended,
                                                          const PretendedCount& count);
/// "12 of 800 computations took longer than pretended; ..."; empty if none did.
std::string lateness(const PretendedCount& count);

}  // namespace plangrad::parallel
