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

/// A run that can begin.
struct ReadyRun {
  Training training;
  SessionSettings settings;
  RunLayout layout;
  std::shared_ptr<const Examples> examples;  ///< that ranks see in microbatches of the layout
};

/// How a program makes one; `started` ranks are there already (0: none).
using Prepare = std::function<ReadyRun(int started)>;

/// `data`: its checksum.
/// throws: Error if the run can't go on with this data, or is over
void check_resume(const RunFlags& run, const nlohmann::json& data);

/// What flags, layout and training say; a program adds its unit.
///   config: what a program says of its model; checksum: of the data; sizes: of the data, for the
///   user
SessionSettings session_settings(const RunFlags& run, const RunLayout& layout,
                                 const Training& training, nlohmann::json config,
                                 const nlohmann::json& checksum, const std::string& sizes);

/// Trains; returns the program's exit status.
int train_run(const RunFlags& run, const Prepare& prepare);

}  // namespace paragrad::examples
