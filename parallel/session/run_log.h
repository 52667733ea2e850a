// RunLog: the progress of a training run, on the terminal and in files.
// Not here: the forms of the files (metric_files.h), and the report at the end (run_report.h).
// Chapters 02 and 03.
#pragma once

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "parallel/session/metric_files.h"
#include "parallel/session/report_metrics.h"
#include "parallel/session/session.h"
#include "parallel/session/validation.h"

namespace plangrad::parallel {

/// The figures of one update; the loss is in nats.
struct StepResult {
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  double seconds = 0;
  std::int64_t units = 0;       ///< tokens or images: the log's unit
  std::int64_t bytes_sent = 0;  ///< by all ranks together
};

/// The line of metrics.jsonl about an update; `unit`: tokens or images.
nlohmann::json line_of(std::int64_t number, const StepResult& result, const std::string& unit);

/// Writes the metrics of updates and validations, and shows progress: one line that is rewritten on
/// a terminal; elsewhere a plain line for each twentieth of the run, or after 30 s without one;
/// nothing if `quiet`. An earlier run's metrics and summary.json stay until replace_earlier().
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
  /// Sets what progress tells of the ranks so far: the share of their time in which they were idle,
  /// if there are several, and the most bytes that one of them held.
  void ranks(std::optional<double> bubble, std::int64_t fullest);
  /// Shows the user a line, outside of the progress.
  void say(const std::string& line);
  /// Shows the user a line on stderr, also in a quiet run.
  void warn(const std::string& line);

  /// Replaces the earlier run's metrics by this run's, and removes its summary. Called after each
  /// checkpoint that this run saves.
  void replace_earlier();
  /// Whether the folder's other files are an earlier run's, which has to stay.
  bool is_beside_earlier() const { return files_->beside_earlier(); }

  /// Notes that the run's folder has another name.
  void move_to(const std::filesystem::path& folder) { files_->move_to(folder); }
  /// What metrics.jsonl holds now, for the checkpoint that is saved next.
  nlohmann::json written() { return files_->written(); }
  /// The file that holds the lines now.
  std::filesystem::path path() const { return files_->path(); }

  /// Seconds spent in updates, and tokens or images per second of them, since this log was made.
  double seconds() const { return seconds_; }
  double units_per_second() const { return static_cast<double>(units_) / std::max(seconds_, 1e-9); }
  double last_loss() const { return last_loss_; }
  /// All lines, those of the updates before a resumption included.
  const MetricsTable& metrics() const { return table_; }

 private:
  void write(const nlohmann::json& line);
  void show(std::int64_t number);
  bool due(std::int64_t number) const;
  std::string progress(std::int64_t number);
  void end_progress();

  const SessionSettings& settings_;
  const int first_;
  std::optional<MetricFiles> files_;
  MetricsTable table_;
  bool terminal_, line_open_ = false, lacks_lines_ = false;
  double seconds_ = 0, last_loss_ = 0;
  std::optional<ValidationResult> validation_;  // not shown yet
  std::optional<double> bubble_;
  std::int64_t units_ = 0, fullest_ = 0;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace plangrad::parallel
