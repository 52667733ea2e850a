// Starts the ranks of a training run as threads or processes, and checks the checkpoint of a
// resumed run. Not here: the session itself (parallel/session/session.h); a program's model and
// data. Chapter 05.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "examples/programs/run_data.h"
#include "examples/programs/run_layout.h"
#include "examples/programs/run_observers.h"

namespace plangrad::examples {

struct RunSettings : SessionSettings {
  ObservedRun observed;
};

/// A run whose flags, layout and data are ready.
struct ReadyRun {
  Training training;
  RunSettings settings;
  RunLayout layout;
  std::shared_ptr<const Examples> examples;             ///< shared by the ranks of this process
  std::shared_ptr<PretendedNetwork> network = nullptr;  ///< shared by ranks; null: links are real
};

/// Makes a program's ReadyRun; `started`: ranks that exist already, 0 if the flags decide.
using Prepare = std::function<ReadyRun(int started)>;

/// Called once with the folder of a run that is complete.
using Finish = std::function<void(const std::filesystem::path& folder)>;

/// The checksums of what a run reads.
struct DataChecksums {
  std::uint64_t training = 0, validation = 0;
};

/// Checks that a run can be resumed with this data.
///   other_validation: the user asks for other validation data
/// throws: Error if the data differ, or if the run is complete
void check_resume(const RunFlags& run, const DataChecksums& data, bool other_validation = false);

/// Makes settings from flags, layout and training; a program adds the unit of its examples.
///   config: describes the model; sizes: sizes of the data, as text for the user
RunSettings session_settings(const RunFlags& run, const RunLayout& layout, const Training& training,
                             nlohmann::json config, const DataChecksums& data,
                             const std::string& sizes);

/// Trains, and returns the program's exit status.
/// throws: UsageError if the run can't begin, before anything is written; Error if it fails later
int train_run(const RunFlags& run, const Prepare& prepare, const Finish& finish = {});

}  // namespace plangrad::examples
