// Lead: rank 0 of a session. It decides what all ranks do next, and tells the observers.
// Not here: how an order is carried out (session_rank.h). Chapter 05.
#pragma once

#include <chrono>

#include "parallel/session/session_rank.h"

namespace plangrad::parallel {

enum class RunState { running, stopped, interrupted, finished };
const char* name_of(RunState state);

/// Rank 0, which leads all ranks.
class Lead : public SessionRank {
 public:
  using SessionRank::SessionRank;
  /// Returns whether the run is complete.
  bool run();

  // What observers use, on rank 0:
  void tell(const Told& told);
  void say(const std::string& line) { tell({Told::line, steps_, line, {}}); }
  void warn(const std::string& line) { tell({Told::warning, steps_, line, {}}); }
  /// Tells of a line of metrics.jsonl on what was found or chosen after the last update.
  void note(const std::string& key, const nlohmann::json& value) {
    tell({Told::metric, steps_, "", {{key, value}}});
  }
  /// What summary.json says beside the report's own figures: observers write their keys.
  nlohmann::json& summary() { return summary_; }
  RunState state() const { return state_; }
  double waited_for_saves() const { return waited_for_saves_; }  ///< seconds
  /// Whether the next updates are recorded.
  bool records() const { return steps_ < record_until_; }
  /// Records the next updates, too, as something has changed what ranks keep. With drift, only if
  /// nothing was recorded yet: a recording drains the pipeline, which would change numbers.
  void record_again(const std::string& since);
  /// ask_all()
  std::vector<std::string> ask(const RunObserver& asker, std::string question);

 private:
  int next_steps();
  int middle() const;
  void train_next_plan();
  std::optional<RecordedUpdates> run_plan(const Train& train, const Plan& plan,
                                          const Plans::Shared& endless,
                                          std::vector<RunResult>& results);
  const char* why_drained(int before, bool recorded);
  void tell_of_drain(const char* why, bool endless);
  bool hear(const std::vector<RunResult>& results) override;
  std::vector<HeardUpdate> heard_until(int last);
  bool is_interrupted() const { return hears_of_stop_ || settings_.interrupted(); }
  bool may_drain_anywhere() const;
  // Saves (saving.cpp):
  bool is_save_due() const;
  void save(bool last = false);
  void describe(nlohmann::json& run, const nlohmann::json& codecs);
  void go_on_saving();
  void await_save(bool last = false);
  void conclude_save(bool last, const std::string& failure = "");
  void note_not_saved(int step, const std::string& why);

  const Borders borders_{settings_, first_, observers_};
  nlohmann::json summary_ = nlohmann::json::object();
  RunState state_ = RunState::running;
  double seconds_per_step_ = 0, waited_for_saves_ = 0;
  // Of the plan that runs:
  bool runs_ = false;
  RunResult unheard_;             // of all ranks, of updates that some have still to make
  int heard_ = 0, per_step_ = 1;  // the last update that all have made; microbatches
  double heard_seconds_ = 0;      // when it was made
  bool clips_ = false, drifts_ = false, overlaps_ = false;
  int ahead_ = 0;  // updates that an endless run may still make when it is interrupted
  bool has_recorded_ = false;
  int record_until_ = first_ + settings_.reported_steps;  // updates before it are recorded
  int middle_ = middle();  // updates after it are recorded instead of the first ones; 0: none are
  std::string since_;      // what happened before those: RecordedUpdates::since
  bool hears_of_stop_ = false;          // whether another rank was asked to end the run
  std::optional<CommitThread> saving_;  // a checkpoint that is written while the run goes on
  // The last of the folder's checkpoints that belongs to this run; -1: none does.
  int own_step_ = first_ > 0 && settings_.resume == settings_.out ? first_ : -1;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

}  // namespace plangrad::parallel
