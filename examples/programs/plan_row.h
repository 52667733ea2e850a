// A row of `plan search`: the flags that train its plan, as its JSON has them, as a command for
// people, and as words that --plan-from reads. Not here: the search (plan_search.h), and what a run
// makes of its flags (run_layout.h).
// Chapter 16.
#pragma once

#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "parallel/schedules/plan_spec.h"

namespace plangrad::examples {

/// The command that a person types: flags that are false or 0 are left out.
///   flags: objects that map flags to values
std::string command_of(const std::string& program, const std::vector<nlohmann::json>& flags);

/// A plan that a search has found, as words of its program's command.
struct RowWords {
  std::vector<std::string> model;   ///< --layers=4 ...: its shape, of which costs and cuts are
  std::vector<std::string> layout;  ///< --schedule=1f1b ..., its batch and its type
};

/// Reads a row of what `plan search --json` printed, the first one is row 1. It takes no flags but
/// those that a search writes, as the file may be a stranger's.
/// throws: Error if the file is none, has no such row, or is for another program
RowWords row_words(const std::filesystem::path& file, int row, const std::string& program);

}  // namespace plangrad::examples
