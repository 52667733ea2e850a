// The pages of runs: data as JSON, and the scripts and styles that draw it (report/).
// Not here: the data (observers/run_record.h), pages of plans. Chapter 06.
#pragma once

#include <filesystem>
#include <string>

namespace plangrad::examples {

/// The name by which pages call a run: that of its folder, without what leads to it.
std::string folder_name(const std::filesystem::path& folder);

/// One HTML page that needs no network. `data`: a run's, as run_page.h describes it.
std::string run_page(const std::string& title, const std::string& data);
/// A page that compares runs. `data`: what compare_runs() returns, and the "command" and "version"
/// that made it.
std::string comparison_page(const std::string& title, const std::string& data);

}  // namespace plangrad::examples
