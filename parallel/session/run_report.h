// RunReport: the files that tell of a run: summary.json and report.html, which can be read while it
// trains, and trace.json, recorded.plan and plan.html, which it leaves at its end.
// Not here: drawing (draw.h), the log (run_log.h), and the weights (nn/checkpoint/checkpoint.h).
// Chapters 02, 03 and 06.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/session/machine.h"
#include "parallel/session/pretended_report.h"
#include "parallel/session/report_metrics.h"
#include "parallel/session/report_window.h"
#include "parallel/session/run_log.h"
#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

/// What happened after an update: a checkpoint was saved, a pipeline drained.
struct RunEvent {
  int step = 0;
  std::string what, text;
};

enum class RunState { running, stopped, interrupted, finished };
const char* name_of(RunState state);

/// What reports take of the run's settings and machine.
struct ReportSources {
  const SessionSettings& settings;
  const Training& training;
  DevicePtr device;
};

/// The results of a session. Losses are the run's; time, rate and memory the session's.
class RunReport {
 public:
  explicit RunReport(ReportSources sources);

  int steps = 0;  ///< updates of the run so far
  RunState state = RunState::running;
  nlohmann::json more = nlohmann::json::object();  ///< what observers say
  Bits bits;                                       ///< chosen last
  std::optional<nlohmann::json> pruned;            ///< null: nothing is pruned; none: not asked for
  std::vector<Peaks> peaks;                        ///< bytes in training, by rank
  std::vector<Peaks> peaks_pruned;                 ///< since the last pruning, if there was one
  std::vector<Peaks> peaks_validating;             ///< bytes in validations, if there were any
  std::map<std::pair<int, std::string>, std::int64_t> bytes_sent;  ///< by rank and kind
  PretendedCount pretended;            ///< of all updates of the session
  double saving = 0;                   ///< seconds in which ranks waited for saves
  double busy = 0;                     ///< seconds that all ranks together computed and stepped
  std::map<std::string, int> drained;  ///< an endless run: how often its pipeline drained, by why
  std::vector<RunEvent> events;        ///< besides those that metrics.jsonl tells of
  std::vector<RankCores> cores;        ///< by rank
  nlohmann::json profile;              ///< of kernels, by rank; null: not asked for, or not yet

  /// Keeps what ranks recorded, in place of an earlier recording since the same event.
  void record(RecordedUpdates recorded);
  bool has_recorded() const { return !recorded_.empty(); }
  /// The plan that was recorded last. throws: std::logic_error if none was
  const Plan& plan() const { return recorded_.back().first.plan; }

  /// Share of the ranks' time in which they neither computed nor stepped, over all updates of the
  /// session, which took `seconds`.
  double bubble(double seconds) const;
  /// How often an endless run's pipeline drained, and why: "3 times (end, 2 x validation)".
  std::string drains() const;
  /// Writes summary.json and report.html as they are now, each as a whole. Does nothing before
  /// updates are recorded, or while the folder is an earlier run's.
  void write(const RunLog& log);
  /// Writes these, trace.json, recorded.plan and plan.html, and tells the user. Measures the
  /// device's matrix-product rate now. A line says so if ranks that compute on the CPU share cores.
  void write_end(RunLog& log);

 private:
  const RecordedFacts& facts(std::size_t recording);
  nlohmann::json figures(const RunLog& log);
  nlohmann::json page(const RunLog& log);

  ReportSources sources_;
  std::string date_;
  std::vector<std::pair<RecordedUpdates, std::optional<RecordedFacts>>> recorded_;
  std::optional<double> matmul_rate_;  ///< measured at the end
};

/// The rate of a device's matrix products, to which a training step's speed is compared: the best
/// of a few products of square f32 matrices, in floating-point operations per second. Takes about
/// 0.2 s on a laptop.
double matmul_rate(const DevicePtr& device);

}  // namespace plangrad::parallel
