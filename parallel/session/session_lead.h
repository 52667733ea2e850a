// Lead: rank 0 of a session. It decides what all ranks do next, and tells the user.
// Not here: how an order is carried out (session_rank.h). Chapter 05.
#pragma once

#include <chrono>

#include "parallel/session/borders.h"
#include "parallel/session/commit_thread.h"
#include "parallel/session/run_report.h"

namespace plangrad::parallel {

/// Rank 0, which leads all ranks.
class Lead : public SessionRank {
 public:
  using SessionRank::SessionRank;
  /// Returns whether the run is complete.
  bool run();

  void tell(const Told& told);
  void say(const std::string& line) { tell({Told::line, steps_, line, {}}); }
  void note(const char* key, const nlohmann::json& value) { log_.note(steps_, key, value); }
  void record_again(const std::string& since);
  nlohmann::json& summary() { return report_.more; }
  std::vector<std::string> ask(const RunObserver& asker, std::string question) {
    return order(Ask{asker.name(), std::move(question)});
  }

 private:
  std::vector<RunResult> train_next_plan();
  const char* why_drained(int before, bool recorded);
  int next_steps();
  bool hear(const std::vector<RunResult>& results) override;
  bool is_interrupted() const { return hears_of_stop_ || settings_.interrupted(); }
  void log_steps(int last);
  void note_drain(const char* why, bool drifts);
  void choose_bits(const std::vector<RunResult>& results);
  bool is_save_due() const;
  bool may_drain_anywhere() const;
  // Saves (session_save.cpp):
  bool follow_folder();
  void save(bool last = false);
  nlohmann::json run_now(const nlohmann::json& codecs);
  void go_on_saving();
  void await_save(bool last = false);
  void conclude_save(bool last, const std::string& failure = "");
  void note_not_saved(int step, const std::string& why);
  void end();
  void measure_memory();
  void tell_profile();
  RunReport& report_now();
  void write_report(bool last = false);

  bool is_recorded() const;
  int middle() const;

  const Borders borders_{settings_, first_, bits_every_, observers_};
  RunLog log_{settings_, first_};
  double seconds_per_step_ = 0;
  // Of the plan that runs:
  RunResult unlogged_;             // of all ranks, of updates that some have still to make
  int logged_ = 0, per_step_ = 1;  // the last update that was logged; microbatches
  double heard_seconds_ = 0;       // when it was made
  bool clips_ = false, drifts_ = false;
  int ahead_ = 0;  // updates that an endless run may still make when it is interrupted
  RunReport report_{{settings_, engine_.training(), engine_.device()}};
  int record_until_ = first_ + settings_.reported_steps;  // updates before it are recorded
  int middle_ = middle();  // updates after it are recorded instead of the first ones; 0: none are
  std::string since_;      // what happened before those: RecordedUpdates::since
  bool hears_of_stop_ = false;  // whether another rank was asked to end the run
  bool lacks_report_ = false;   // whether the report couldn't be written, and the user knows
  std::optional<CommitThread> saving_;  // a checkpoint that is written while the run goes on
  // The last of the folder's checkpoints that belongs to this run; -1: none does.
  int own_step_ = first_ > 0 && settings_.resume == settings_.out ? first_ : -1;
  std::chrono::steady_clock::time_point reported_ = std::chrono::steady_clock::now(),
                                        saved_ = reported_;
};

}  // namespace plangrad::parallel
