// Rescue: when a session fails, saves the last update that was finished, if the ranks that are left
// hold all its state: replicas do, or all ranks after a loss that is not finite.
// Not here: why it failed, and a rank whose memory is gone: it throws RankLost and leaves nothing.
// Chapter 15.
#pragma once

#include <atomic>
#include <filesystem>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "parallel/observers/metric_files.h"
#include "parallel/session/saving.h"
#include "parallel/session/session_rank.h"

namespace plangrad::examples {

using namespace plangrad::parallel;

/// What a rank still has when a session fails. Buffers are shared with the engine that is gone.
struct Remains {
  /// The state of a stage after an update.
  struct Stage {
    int update = 0;
    Shard shard;
    std::vector<StagePart> parts;
    std::string problem;  ///< why it can't be saved; empty: it can
  };
  int rank = 0, first = 0;      ///< updates done before the session
  std::string left_out;         ///< codecs of which only what they left out can't be saved
  std::map<int, Stage> stages;  ///< the stages that the rank holds
  int stages_with_layers = 1, stage_count = 1, per_step = 1;
  bool clips = false;
  RunResult results;   ///< the results of the plan that failed
  nlohmann::json run;  ///< the description of the run in checkpoints
  std::string run_id;
};

/// The folder in which a run that diverged saves its last update: diverged/, or diverged-2/ and so
/// on if that is taken by anything but this very update of the run, made with the same flags.
std::filesystem::path folder_aside(const std::filesystem::path& out, const nn::Manifest& saved);

/// The flags that continue from the newest save before an update: in `out`, or in `resume`, which
/// the run continued from after update `first`. Empty if there is none.
std::string flags_before(int update, const std::filesystem::path& out,
                         const std::filesystem::path& resume, int first);

/// Takes what a rank still holds after its plan failed.
Remains remains_of(SessionRank& rank);

/// The folder to which an update is rescued, and the form of its lines.
struct RescueSettings {
  SessionScope scope;
  std::string unit = "tokens";
  std::int64_t units_per_step = 0;
};

/// Shared by the ranks of a process, which add what they have when they fail.
class Rescue {
 public:
  /// scope: of the session, before it saves anything
  explicit Rescue(const SessionScope& scope = {});
  /// Adds the state of a rank; if it can't be read, nothing is saved. If the run has diverged, its
  /// last update goes to the folder diverged/, where it takes the place of nothing, and is not what
  /// a resumed run begins from: that would diverge again.
  void add_remains_of(SessionRank& rank, bool diverged);
  bool diverged() const { return diverged_; }
  /// Forbids to save anything.
  ///   why: ends "the last updates are not saved, as"
  void forbid(const std::string& why);

  /// Saves, once all ranks of this process have ended. The save before stays. Returns a line for
  /// the user: what is saved, or why not and which earlier save is the newest. If the session made
  /// no update, it says how to go back if the run diverged, and else is empty.
  std::string save(const RescueSettings& settings, const LearningRate& learning_rate) const;
  /// The newest update in the run's folder that the run continued from or has saved; 0: none.
  int newest_save(const std::filesystem::path& out) const;

 private:
  std::string problem_at(int update) const;
  std::vector<std::string> lines_until(int update, const RescueSettings& settings,
                                       const LearningRate& learning_rate, std::string& lacks) const;
  /// Returns what to tell of metrics that it moved aside, and of lines that are lost.
  std::string commit(int update, const std::filesystem::path& out, const RescueSettings& settings,
                     const LearningRate& learning_rate) const;

  std::mutex mutex_;
  std::vector<Remains> remains_;
  OwnFiles own_;           // as they were before the session
  std::string given_up_;   // checksum of the newest save that the run did not continue from
  std::string forbidden_;  // why; empty: it is not
  std::atomic<bool> diverged_ = false;
};

/// Adds what its rank has to the Rescue of its process when the session fails.
class Rescuer : public RunObserver {
 public:
  explicit Rescuer(std::shared_ptr<Rescue> rescue) : rescue_(std::move(rescue)) {}
  const char* name() const override { return "rescue"; }
  void failed(SessionRank& rank) noexcept override;

 private:
  std::shared_ptr<Rescue> rescue_;
};

}  // namespace plangrad::examples
