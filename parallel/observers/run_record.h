// RunRecord: the data that a run leaves: summary.json, which can be read while it trains, and at
// its end trace.json and recorded.plan.
// Not here: pages that draw them (examples/pages/run_page.h), the log (run_log.h), and the weights
// (nn/checkpoint/checkpoint.h). Chapters 02, 03 and 06.
#pragma once

#include "parallel/observers/recording.h"
#include "parallel/observers/run_log.h"
#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

struct RecordSettings {
  nlohmann::json config = nlohmann::json::object();  ///< the description of the run
  double flops_per_unit = 0;                         ///< work of a token or image; 0: not known
  double report_every = 30;                          ///< seconds from one summary to the next
  std::shared_ptr<const Pretended> pretended = nullptr;
};

/// A rank's answer to the record: its peaks of memory in bytes (PeakBook::found), and its cores.
struct MeasuredRank {
  std::map<std::string, Peaks> peaks;
  RankCores cores;
  static auto fields(auto& x) { return std::tie(x.peaks, x.cores); }
};

/// Losses are the run's; time, rate and memory the session's. The last observer of a list, as it
/// tells what the others have changed.
class RunRecord : public AskingObserver<Nothing, MeasuredRank> {
 public:
  /// `log`: that of the same list
  RunRecord(const RunLog& log, RecordSettings settings)
      : log_(log), settings_(std::move(settings)) {}

  const char* name() const override { return "record"; }
  void ready(Lead& lead) override;
  void heard(Lead& lead, const Heard& heard) override;
  void plan_ended(Lead& lead, const PlanEnd& plan) override;
  void told(Lead& lead, const Told& told) override;
  void ended(Lead& lead) override;

 protected:
  struct Recording {
    RecordedUpdates updates;
    std::optional<RecordedFacts> facts;  ///< worked out once
  };

  /// Draws what is written. At the end, the other files are there, too.
  ///   summary: the content of summary.json
  virtual void draw(Lead& /*lead*/, const nlohmann::json& /*summary*/, bool /*last*/) {}

  /// Writes a file of the run's folder. If others have changed it, renames theirs first, and warns.
  void write_file(Lead& lead, const std::string& name, std::string_view bytes);
  /// What ranks recorded, the last since each change of what they keep. The facts are there.
  const std::vector<Recording>& recordings() const { return recordings_; }
  /// Bytes that a rank sent, by rank and kind of message.
  const auto& bytes_sent() const { return bytes_sent_; }
  /// How often an endless run's pipeline drained, and why: "3 times (end, 2 x validation)"; empty
  /// if it never did.
  std::string drains() const;
  const RunLog& log() const { return log_; }

 private:
  MeasuredRank carry_out(SessionRank& rank, const Nothing&) override;
  void write(Lead& lead, bool last = false);
  void write_end(Lead& lead);
  nlohmann::json summary(Lead& lead);

  const RunLog& log_;
  const RecordSettings settings_;
  std::string date_, begun_by_ = command_line();  // the run's first command
  OwnFiles own_;
  int steps_ = 0;                    // updates of the run so far
  std::vector<MeasuredRank> ranks_;  // as asked last
  std::map<std::pair<int, std::string>, std::int64_t> bytes_sent_;
  std::map<std::string, int> drained_;               // by why
  nlohmann::json events_ = nlohmann::json::array();  // besides those that metrics.jsonl tells of
  std::vector<Recording> recordings_;
  std::optional<double> matmul_rate_;  // measured at the end
  bool lacks_report_ = false;          // whether it couldn't be written, and the user knows
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

/// How the run's groups add up; the transport's own sums count as rings.
Summing sums_of(Lead& lead);

/// The time now, as "2026-11-23 14:37:05 UTC".
std::string date_now();

/// The rate of a device's matrix products, to which a training step's speed is compared: the best
/// of a few products of square f32 matrices, in floating-point operations per second. Takes about
/// 0.2 s on a laptop.
double matmul_rate(const DevicePtr& device);

}  // namespace plangrad::parallel
