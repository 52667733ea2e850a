// Run report: what a run leaves for people to look at: trace.json and report.html.
// Not here: drawing (draw.h). Chapter 06.
#pragma once

#include <filesystem>

#include "parallel/drawing/draw.h"
#include "parallel/session/run_log.h"
#include "parallel/session/session_rank.h"
#include "parallel/simulation/simulate.h"

namespace paragrad::parallel {

/// What computations and messages of a measured timeline cost: medians of the stages' forwards,
/// backwards and steps; of messages, whose times contain waiting, the shortest time as the latency
/// and the rate that a tenth of them reach as the bandwidth.
Costs measured_costs(const Plan& plan, const Timeline& measured);

/// The loss over the steps, from the lines of a metrics.jsonl.
Curve loss_curve(const std::filesystem::path& metrics);
/// The choices of bits that a run's metrics.jsonl has.
std::vector<BitChange> bit_history(const std::filesystem::path& metrics);

/// What a session has found by its end. Losses are the run's; time, rate and memory the session's.
struct RunReport {
  int steps = 0;        ///< of the run, by now
  std::string stopped;  ///< "stopped" or "interrupted", if the run was
  std::optional<ValidationResult> validation;
  Bits bits;                             ///< that were chosen last
  std::optional<nlohmann::json> pruned;  ///< null: nothing is; none: it is not asked for
  std::vector<Peaks> peaks;              ///< by rank
  std::vector<Peaks> peaks_pruned;       ///< since the last pruning, if there was one
  std::map<std::pair<int, std::string>, std::int64_t> bytes_sent;  ///< by rank and kind
  // The updates that are shown.
  Plan plan;
  bool driven = false;  ///< whether messages decided the order of what ranks did
  Timeline recorded;
  std::vector<MemorySample> memory;

  /// Writes summary.json, trace.json and report.html; and recorded.plan, where rows had no order
  /// before they ran. The device's matrix-product rate is measured now.
  void write(const SessionSettings& settings, RunLog& log, const DevicePtr& device) const;
};

}  // namespace paragrad::parallel
