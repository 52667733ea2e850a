// The lines of a metrics.jsonl that tell of a step, as runs read them, all at once. Not here: a
// reader that fails at any other line (tests/examples/programs.h).
#pragma once

#include <nlohmann/json.hpp>

#include "parallel/observers/metric_files.h"

namespace plangrad::tests {

inline std::vector<nlohmann::json> metrics_of(const std::filesystem::path& path) {
  std::vector<nlohmann::json> lines;
  parallel::read_metrics(path, [&](const nlohmann::json& line) { lines.push_back(line); });
  return lines;
}

}  // namespace plangrad::tests
