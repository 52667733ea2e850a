// What training programs do around a session: ranks as threads or processes, signals, a resumed
// run's checkpoint. Not here: what a session does (parallel/session/session.h); a program's model
// and data.
// Chapter 05.
#pragma once

#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "examples/common/run_data.h"
#include "examples/common/run_layout.h"

namespace paragrad::examples {

/// A run that can begin: what its ranks share, and how each one sees the data.
struct ReadyRun {
  Training training;
  SessionSettings settings;
  int ranks = 1;
  int first = 0;  ///< steps done before
  std::function<std::unique_ptr<RunData>()> data;
  std::int64_t memory_cap = 0;  ///< bytes of a rank; 0: any
};

/// How a program makes one; `started` ranks are there already (0: none).
using Prepare = std::function<ReadyRun(int started)>;

/// Returns the steps done before. `data`: its checksum.
/// throws: Error if the run can't go on with this data, or is over
int check_resume(const RunFlags& run, const nlohmann::json& data);

/// What flags, layout and training say; a program adds its unit.
///   config: what a program says of its model; checksum: of the data; sizes: of the data, for the
///   user
SessionSettings session_settings(const RunFlags& run, const RunLayout& layout,
                                 const Training& training, nlohmann::json config,
                                 const nlohmann::json& checksum, const std::string& sizes);

/// A run after `first` steps, each rank of which sees the examples in microbatches of the layout.
ReadyRun ready_run(const RunFlags& run, const RunLayout& layout, Training training,
                   SessionSettings settings, int first, std::shared_ptr<const Examples> examples);

/// Trains; returns the program's exit status.
int train_run(const RunFlags& run, const Prepare& prepare);

}  // namespace paragrad::examples
