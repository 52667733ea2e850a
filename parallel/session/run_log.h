// RunLog: what a training run tells, on the terminal and in files.
// Not here: training, and the weights (nn/checkpoint/checkpoint.h).
// Chapter 02.
#pragma once

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "autograd/memory_meter.h"

namespace paragrad::parallel {

using namespace autograd;

/// What one update was.
struct StepResult {
  double loss = 0, learning_rate = 0, gradient_norm = 0;
  double seconds = 0;
  std::int64_t units = 0;       ///< tokens or images: the log's unit
  std::int64_t bytes_sent = 0;  ///< by all ranks together
};

/// What one validation found.
struct ValidationResult {
  double loss = 0;
  std::optional<double> accuracy;  ///< share of right predictions, if they were counted
};

/// Where a session of a run begins and ends.
struct RunSpan {
  std::int64_t first = 0;         ///< updates done before
  std::int64_t last = 0;          ///< updates of the whole run
  std::filesystem::path earlier;  ///< the folder that holds the lines of those done before
};

/// Writes metrics.jsonl, a line a step and one a validation, and shows progress: one line that is
/// rewritten on a terminal, plain lines elsewhere, nothing if `quiet`.
///
/// An earlier run's metrics.jsonl and summary.json belong to its checkpoint and stay as long as
/// that does: until replace_earlier(), this run's lines go to metrics.jsonl.partial beside them.
class RunLog {
 public:
  /// `unit` is what a run's rate counts: "tokens", "images".
  /// throws: Error if the folder can't be written
  RunLog(const std::filesystem::path& folder, const RunSpan& span, bool quiet,
         const std::string& unit = "tokens");
  /// Leaves the terminal at the beginning of a line.
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  /// After each update.
  void step(std::int64_t number, const StepResult& result);
  /// throws: Error if the loss is not finite
  void validation(std::int64_t number, const ValidationResult& result);
  /// How many bits layers have from now on.
  void bits(std::int64_t number, const std::map<std::string, int>& bits);
  /// What a look at the weights found, when a run is pruned on its way.
  void pruning(std::int64_t number, const nlohmann::json& found);
  /// A line for the user, outside the progress.
  void say(const std::string& line);

  /// To be called when this run has saved its checkpoint: the folder's metrics are its own now, and
  /// a summary there is outdated.
  void replace_earlier();
  /// Writes summary.json, when the run is over.
  void summary(const nlohmann::json& figures);

  /// Where the lines are now.
  const std::filesystem::path& path() const { return path_; }

  /// Time spent in steps, and tokens or images trained on, since this log was made.
  double seconds() const { return seconds_; }
  std::int64_t units() const { return units_; }
  double last_loss() const { return last_loss_; }

 private:
  void show(std::int64_t number);
  void end_progress();
  void write(const nlohmann::json& line);

  std::filesystem::path folder_, path_;  // path_: of the metrics, as yet
  std::string unit_;
  std::ofstream metrics_;
  RunSpan span_;
  bool quiet_, terminal_, line_open_ = false;
  double seconds_ = 0, last_loss_ = 0;
  std::optional<ValidationResult> validation_;
  std::int64_t units_ = 0;
  std::chrono::steady_clock::time_point shown_;
};

/// Peak bytes of each category, and of all together, of a rank's memory.
std::map<std::string, std::int64_t> memory_summary(const MemoryMeter& meter);

}  // namespace paragrad::parallel
