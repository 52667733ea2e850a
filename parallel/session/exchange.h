// Exchange: what ranks tell rank 0 of a plan that they ran, and what it makes of that: one result a
// step, one timeline, memory over time.
// Not here: files (run_report.h, parallel/session/run_log.h). Chapter 05.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/engine/engine.h"
#include "parallel/session/run_log.h"

namespace paragrad::parallel {

/// The results of all ranks, by rank.
class WorldResult {
 public:
  explicit WorldResult(std::vector<RunResult> ranks);

  /// By microbatch, of the whole world.
  const std::map<int, double>& losses() const { return losses_; }
  const std::map<int, double>& accuracies() const { return accuracies_; }
  /// One for each step of the plan: its mean loss, the gradient's norm; and its share of the plan's
  /// time, because without flushes ranks are in different steps at a time. Rates and tokens are
  /// left to the caller.
  std::vector<StepResult> steps(const Plan& plan) const;
  /// Bytes that all ranks sent, by message_kind().
  const std::map<std::string, std::int64_t>& bytes_sent() const { return bytes_sent_; }
  Timeline timeline() const { return timeline_; }

 private:
  std::map<int, double> losses_, accuracies_, norms_, stepped_;
  std::map<int, std::vector<double>> squares_;
  std::map<std::string, std::int64_t> bytes_sent_;
  Timeline timeline_;
};

/// The plan as it was run: of a message-driven one, with rows in the order that came about, by
/// rank.
Plan ran(const Plan& plan, const std::vector<RunResult>& ranks);

/// What is worth telling of a meter's timeline. Of more than 6,000 events those stay that are the
/// highest or the last of their category in a thousandth of the time, so that peaks do.
std::vector<MemoryMeter::Event> outstanding(const std::vector<MemoryMeter::Event>& events);
std::vector<MemorySample> memory_samples(int rank, const std::vector<MemoryMeter::Event>& events);

}  // namespace paragrad::parallel
