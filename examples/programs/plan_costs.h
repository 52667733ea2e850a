// RunCosts: what a finished run says of its model and of the time that its computations took, for
// a search of plans. Not here: how a run measures it (parallel/observers/recording.h).
// Chapter 16.
#pragma once

#include <filesystem>
#include <string>

#include "parallel/planner/stage_seconds.h"

namespace plangrad::examples {

struct RunCosts {
  parallel::PlannedModel model;
  parallel::MeasuredSeconds seconds;
  std::string dtype;
  int batch = 1, ranks = 1;
  std::string data;  ///< words of a command: its text, and how that is cut into tokens
};

/// Reads the folder of a run.
/// The ranks of a plan share the cores that the run had: kernels take longer by as much as a rank
/// has fewer of them.
///   model: a name or a file; empty: the run's, if it is a GPT
///   devices: the most ranks of a plan; 0: the run's
/// throws: Error if the folder has no costs, or those of another model
RunCosts run_costs(const std::filesystem::path& folder, const std::string& model, int devices);

}  // namespace plangrad::examples
