// RunLog: the progress of a training run, on the terminal and in metrics.jsonl.
// RunReport: the files that a run leaves at its end: summary.json, trace.json and report.html.
// Not here: drawing (draw.h), and the weights (nn/checkpoint/checkpoint.h). Chapters 02, 03 and 06.
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
#include "parallel/session/session_rank.h"

namespace paragrad::parallel {

/// The figures of one update; the loss is in nats.
struct StepResult {
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  double seconds = 0;
  std::int64_t units = 0;       ///< tokens or images: the log's unit
  std::int64_t bytes_sent = 0;  ///< by all ranks together
};

/// The results of one validation; the loss is in nats.
struct ValidationResult {
  double loss = 0;
  std::optional<double> accuracy;  ///< share of right predictions, if they were counted
};
/// Writes "validation_loss", and "validation_accuracy" if there is one.
void to_json(nlohmann::json& json, const ValidationResult& result);

/// Writes metrics.jsonl, a line per update and per validation, and shows progress: one line that is
/// rewritten on a terminal, plain lines elsewhere, nothing if `quiet`.
///
/// An earlier run's metrics.jsonl and summary.json belong to its checkpoint and stay as long as
/// that does: until replace_earlier(), this run's lines go to metrics.jsonl.partial beside them.
class RunLog {
 public:
  /// Makes the run's folder, and the one for its checkpoint. `first`: updates done before.
  /// throws: Error if a folder can't be written
  RunLog(const SessionSettings& settings, int first);
  /// Leaves the terminal at the beginning of a line.
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// Logs an update; called after each one.
  void step(std::int64_t number, const StepResult& result);
  void validation(std::int64_t number, const ValidationResult& result);
  /// Writes a line of metrics.jsonl on anything else that was found or chosen after an update.
  void note(std::int64_t number, const char* name, const nlohmann::json& value);
  /// Shows the user a line, outside of the progress.
  void say(const std::string& line);

  /// Replaces the earlier run's metrics by this run's, and removes its summary. Called once this
  /// run has saved its checkpoint.
  void replace_earlier();
  /// Writes summary.json, at the end of the run.
  void summary(const nlohmann::json& figures);

  /// The file that holds the lines now.
  const std::filesystem::path& path() const { return path_; }

  /// Seconds spent in updates, and tokens or images per second of them, since this log was made.
  double seconds() const { return seconds_; }
  double units_per_second() const { return static_cast<double>(units_) / std::max(seconds_, 1e-9); }
  double last_loss() const { return last_loss_; }

 private:
  void show(std::int64_t number);
  void end_progress();
  void write(const nlohmann::json& line);

  const SessionSettings& settings_;
  const int first_;
  std::filesystem::path path_;
  std::ofstream metrics_;
  bool terminal_, line_open_ = false;
  double seconds_ = 0, last_loss_ = 0;
  std::optional<ValidationResult> validation_;
  std::int64_t units_ = 0;
  std::chrono::steady_clock::time_point shown_;
};

/// The lines of a metrics.jsonl that tell of a step; none if there is no such file.
std::vector<nlohmann::json> metrics_of(const std::filesystem::path& path);

/// The results of a session. Losses are the run's; time, rate and memory the session's.
struct RunReport {
  int steps = 0;        ///< updates of the run so far
  std::string stopped;  ///< "stopped" or "interrupted"; empty if the run is complete
  std::optional<ValidationResult> validation;
  Bits bits;                             ///< chosen last
  std::optional<nlohmann::json> pruned;  ///< null: nothing is pruned; none: not asked for
  std::vector<Peaks> peaks;              ///< bytes, by rank
  std::vector<Peaks> peaks_pruned;       ///< since the last pruning, if there was one
  std::map<std::pair<int, std::string>, std::int64_t> bytes_sent;  ///< by rank and kind
  PretendedCount pretended;  ///< of all updates of the session
  // The recorded updates, which the report shows.
  Plan plan;
  bool driven = false;  ///< whether messages decided the order of computations
  Timeline recorded;
  std::vector<MemorySample> memory;
  std::optional<SharedCores> shared;  ///< none: each rank has a core of its own

  /// Writes summary.json, trace.json and report.html; also recorded.plan, if messages decided the
  /// order of rows. Measures the device's matrix-product rate now. If ranks that compute on the CPU
  /// share cores, the page's first line says so.
  void write(const SessionSettings& settings, RunLog& log, const DevicePtr& device) const;
};

/// The costs of a measured timeline's computations and messages: medians of the stages' forwards,
/// backwards and updates. The times of messages contain waiting, so the shortest one is the
/// latency, and the rate that a tenth of them reach is the bandwidth.
Costs measured_costs(const Plan& plan, const Timeline& measured);

/// The rate of a device's matrix products, to which a training step's speed is compared: the best
/// of a few products of square f32 matrices, in floating-point operations per second. Takes about
/// 0.2 s on a laptop.
double matmul_rate(const DevicePtr& device);

}  // namespace paragrad::parallel
