// compare_runs: reads what runs have left in their folders, for one page that shows them side by
// side. Not here: the page (examples/pages/report_page.h), the files (observers/run_record.h).
// Chapter 06.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <vector>

namespace plangrad::examples {

/// {"title", "runs": [{"name", "summary", "metrics": columns}], "differences": [{"what", "values":
/// of each run}], "warnings": [...]}: settings in which the runs differ, and what of this makes
/// numbers incomparable. Runs of earlier versions lack some of the summary's keys.
/// throws: Error if a folder has no summary.json of a run, or fewer than two are given
nlohmann::json compare_runs(const std::vector<std::filesystem::path>& folders);

}  // namespace plangrad::examples
