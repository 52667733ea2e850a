// The observers of a program's run: what a run does beside training and saving, in one list.
// Not here: the observers themselves (parallel/observers/, sparse/prune_run.h, examples/elastic/,
// examples/profile/, examples/pages/). Chapter 05.
#pragma once

#include <nlohmann/json.hpp>

#include "examples/elastic/rescue.h"
#include "examples/programs/run_flags.h"
#include "parallel/simulation/machine.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// What observers are told of a run beside its flags.
struct ObservedRun {
  std::string about;      ///< a line for the user at the beginning
  std::string gives_way;  ///< the part of it that is told under --quiet, too
  std::string title;      ///< the title of report.html
  nlohmann::json config;  ///< the description of the run in summary.json
  std::string unit = "tokens";
  std::int64_t units_per_step = 0;
  double flops_per_unit = 0;
  CodecSpec codec = {};                                  ///< that of gradient sums
  std::shared_ptr<const Pretended> pretended = nullptr;  ///< null: nothing is
  std::shared_ptr<Rescue> rescue = std::make_shared<Rescue>();
  /// Called after each save of rank 0.
  std::vector<std::function<void(const SessionScope& scope)>> saved = {};
};

/// A rank's observers, in the order of their calls: a check of the folder; the log, as it has the
/// files that others tell of; and at the end the record, as it tells what the others changed.
Observers run_observers(const RunFlags& flags, const ObservedRun& run);

}  // namespace plangrad::examples
