// RecordedUpdates: what ranks recorded of a few updates; what summary.json and report.html tell of
// them. Not here: the run as a whole (run_report.h). Chapter 06.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/engine/training.h"
#include "parallel/session/machine.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

struct Pretended;

/// Updates between which nothing changed what ranks keep in memory.
struct RecordedUpdates {
  std::string since;    ///< what changed it before them: "pruning after update 6"; empty: the start
  Plan plan;            ///< as it ran; if messages decided the order, with the order that it had
  bool driven = false;  ///< whether messages decided it
  Timeline timeline;
  std::vector<MemorySample> memory;
  /// In which the run goes on; null: every plan drains.
  std::shared_ptr<const VerifiedPlan> endless = nullptr;
};

/// What the ranks' machine and training add to a timeline.
struct RecordingContext {
  const Training& training;
  const Pretended* pretended = nullptr;
  std::optional<SharedCores> shared;  ///< of ranks that compute on the CPU; none: each has a core
};

/// What a report tells of recorded updates.
struct RecordedFacts {
  std::string about_times;  ///< if ranks share cores, whose times these are
  Timeline planned;         ///< simulated from the measured costs
  nlohmann::json summary;   ///< "bubble", "breakdown", ...: keys of summary.json
  nlohmann::json page;      ///< for report.html: bars, cells, memory and messages
};

/// Takes time in proportion to the number of records.
RecordedFacts facts_of(const RecordedUpdates& recorded, const RecordingContext& context);

/// The ranks whose cells and memory a page shows, and for each the ranks whose rows compute the
/// same stages in the same order, itself included. All ranks, each alone, up to 32 of them.
std::vector<std::vector<int>> shown_ranks(const Plan& plan);

/// The costs of a measured timeline's computations and messages: medians of the stages' forwards,
/// backwards, parts of split backwards, and updates; 0 for a kind that did not run. The times of
/// messages, and of the rounds of a collective, contain waiting, so the shortest one is the
/// latency, and the rate that a tenth of them reach in the time beyond it is the bandwidth.
Costs measured_costs(const Plan& plan, const Timeline& measured);

}  // namespace plangrad::parallel
