// The pages of runs: data as JSON, and the scripts and styles that draw it (report/).
// Not here: the data (observers/run_record.h), pages of plans. Chapter 06.
#pragma once

#include <string>

namespace plangrad::examples {

/// One HTML page that needs no network. `data`: a run's, as run_page.h describes it.
std::string run_page(const std::string& title, const std::string& data);
/// A page that compares runs. `data`: {"runs": [{"name", "summary", "metrics"}]}.
std::string comparison_page(const std::string& title, const std::string& data);

}  // namespace plangrad::examples
