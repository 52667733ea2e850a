// What recorded updates tell: where their time went, and what they would take as planned.
// Not here: recording them (session/session_lead.cpp), the run as a whole (run_record.h).
// Chapter 06.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/engine/training.h"
#include "parallel/observers/machine.h"
#include "parallel/session/observer.h"
#include "parallel/simulation/breakdown.h"
#include "parallel/simulation/costs.h"

namespace plangrad::parallel {

struct Pretended;

/// What the ranks' machine and training add to a timeline.
struct RecordingContext {
  const Training& training;
  const Pretended* pretended = nullptr;
  std::optional<SharedCores> shared;  ///< of ranks that compute on the CPU; none: each has a core
};

/// A timeline of the recorded updates, and where its time goes.
struct TimedVersion {
  std::string key;
  Timeline timeline;
  Breakdown time;
};

struct RecordedFacts {
  std::vector<TimedVersion> versions;   ///< "measured"; "simulated" from the measured costs; if
                                        ///< ranks share cores, "own_cores"
  std::vector<TimeParts> without_core;  ///< seconds of each rank's computations in which their
                                        ///< threads had no core; empty if ranks share none
  std::string about_times;              ///< if ranks share cores, whose times these are
  nlohmann::json summary;               ///< "bubble", "breakdown", ...: keys of summary.json

  const Timeline& planned() const { return versions[1].timeline; }
};

/// Takes time in proportion to the number of records.
RecordedFacts facts_of(const RecordedUpdates& recorded, const RecordingContext& context);

/// The most bytes of one category that all ranks together have at once.
std::int64_t peak_of_all_ranks(std::vector<MemorySample> samples, const std::string& category);

/// The costs of a measured timeline's computations and messages: medians of the stages' forwards,
/// backwards, parts of split backwards, and updates; 0 for a kind that did not run. The times of
/// messages, and of the rounds of a collective, contain waiting, so the shortest one is the
/// latency, and the rate that a tenth of them reach in the time beyond it is the bandwidth.
Costs measured_costs(const Plan& plan, const Timeline& measured);

}  // namespace plangrad::parallel
