// RunLog: the progress of a training run, on the terminal and in files.
// Not here: the forms of the files (metric_files.h), and the report at the end (run_record.h).
// Chapters 02 and 03.
#pragma once

#include "parallel/observers/metric_files.h"
#include "parallel/session/session.h"

namespace plangrad::parallel {

struct LogSettings {
  bool quiet = false;           ///< shows warnings alone
  std::string about = {};       ///< a line for the user at the beginning
  std::string unit = "tokens";  ///< the unit of rates
  std::int64_t units_per_step = 0;
  bool is_segment = false;  ///< another session follows where this one stops
  /// Makes a line safe for a terminal: it may quote names of others' files.
  std::function<std::string(const std::string&)> shown = [](const auto& line) { return line; };
  nlohmann::json flags = {};  ///< by their names; TensorBoard shows them
};

/// Writes the metrics of updates and what else is told of them, and shows progress: on a terminal a
/// line that is rewritten, unless it has a validation; elsewhere a line for each twentieth of the
/// run, or after 30 s. An earlier run's metrics and summary.json stay until this run has saved.
class RunLog : public RunObserver {
 public:
  explicit RunLog(LogSettings settings);
  /// Leaves the terminal at the beginning of a line.
  ~RunLog() override;

  const char* name() const override { return "log"; }
  void ready(Lead& lead) override;
  void heard(Lead& lead, const Heard& heard) override;
  void told(Lead& lead, const Told& told) override;
  void save(Saving& saving) override;
  void saved(Lead& lead, int step) override;
  void ended(Lead& lead) override;

  /// Begins the files, with the lines of the `first` updates that were made before.
  /// throws: Error if the folder can't be written
  void open(const SessionScope& scope, int first);
  /// Writes a line of metrics.jsonl.
  void write(const nlohmann::json& line);
  /// Calls this with each line from now on, those of the updates before a resumption included.
  void on_line(TakeLine hears) { hears_ = std::move(hears); }

  const LogSettings& settings() const { return settings_; }
  /// Whether the folder's other files are an earlier run's, which has to stay.
  bool is_beside_earlier() const { return files_->beside_earlier(); }
  /// The lengths and checksums of the files that hold the metrics, by their names.
  nlohmann::json files_written() const { return files_->files_written(); }
  /// Seconds spent in updates, and tokens or images per second of them, in this session.
  double seconds() const { return seconds_; }
  double units_per_second() const { return static_cast<double>(units_) / std::max(seconds_, 1e-9); }
  double last_loss() const { return last_loss_; }
  /// Share of the ranks' time in which they neither computed nor stepped, in the whole session.
  double bubble() const { return bubble_; }

 private:
  void replace_changed();
  void step(const HeardUpdate& update);
  void say(const std::string& line);
  void warn(const std::string& line);
  void show(int step);
  bool due(int step) const;
  std::string progress(int step);
  void end_progress();

  const LogSettings settings_;
  SessionScope scope_;
  int first_ = 0;
  std::unique_ptr<MetricFiles> files_;  // of rank 0
  TakeLine hears_ = [](const nlohmann::json&) {};
  bool terminal_, line_open_ = false, lacks_lines_ = false;
  double seconds_ = 0, busy_ = 0, bubble_ = 0, last_loss_ = 0;
  double ranks_ = 0;           // 0: none was heard yet
  nlohmann::json validation_;  // not shown yet
  std::int64_t units_ = 0, fullest_ = 0;
  std::chrono::steady_clock::time_point shown_;
};

}  // namespace plangrad::parallel
