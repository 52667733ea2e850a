// SessionRank: one rank of a session. It makes its engine, from a checkpoint or anew, and its
// observers, and carries out the orders that rank 0 gives to all ranks; each rank answers. Lead:
// rank 0, which decides what all ranks do next, and tells the observers. Chapter 05.
#pragma once

#include "parallel/session/agreement.h"
#include "parallel/session/saving.h"
#include "parallel/session/session.h"
#include "parallel/transports/launch.h"

namespace plangrad::parallel {

/// Bytes by category.
using Peaks = std::map<std::string, std::int64_t>;

/// The peaks of a rank's memory in the whole session, and in parts of it that observers name.
class PeakBook {
 public:
  explicit PeakBook(MemoryMeter& meter) : meter_(meter) {}
  /// The peaks of the part that the last cut() began and of those of apart(), by name; under "",
  /// those of the session but for the parts of apart().
  std::map<std::string, Peaks> found();
  /// The most bytes in training since the last cut().
  std::int64_t total() const;
  /// Begins a part that lasts until the next cut().
  void cut(const std::string& part);
  /// Runs `work`, whose peaks count for this part alone.
  void apart(const std::string& part, const std::function<void()>& work);

 private:
  MemoryMeter& meter_;
  std::string part_;                    // began with the last cut; empty: none
  Peaks before_, now_;                  // up to the last cut; since then, up to the last apart()
  std::map<std::string, Peaks> apart_;  // by part
};

/// Run the plan of the next updates.
struct Train {
  int steps = 0;
  bool recorded = false;  ///< whether it records a timeline, and memory over time
  int report_every = 0;   ///< not 0: run the endless plan for `steps` updates, or somewhat fewer,
                          ///< and report after so many bodies
  struct Answer {
    RunResult result;
    std::vector<MemoryMeter::Event> memory;
    static auto fields(auto& x) { return std::tie(x.result, x.memory); }
  };
};

/// Have the observer of this name answer.
struct Ask {
  std::string observer, question;
  static auto fields(auto& x) { return std::tie(x.observer, x.question); }
  using Answer = std::string;
};

/// Begin to write this rank's files of a checkpoint.
struct Save {
  struct Answer {
    std::vector<CheckpointFile> files;  ///< the files as they will be
    std::string run;                    ///< what observers add to the description: JSON
    std::string codec;                  ///< the codec's numbers: JSON
    WeightsChecksums weights;           ///< what replicas compare
    std::string on_disk_before, failure;
    static auto fields(auto& x) {
      return std::tie(x.files, x.run, x.codec, x.weights, x.on_disk_before, x.failure);
    }
  };
};

struct FinishFiles {
  using Answer = std::vector<CheckpointFile>;  ///< the files as they are
};

/// Return from the session.
struct End {
  using Answer = Nothing;
};

using Order = std::variant<Train, Ask, Save, FinishFiles, End>;

/// The part of a meter's timeline that is worth telling. Of a long one, only the highest and the
/// last event of each category in each thousandth of the time stay, so that peaks do.
std::vector<MemoryMeter::Event> outstanding(const std::vector<MemoryMeter::Event>& events);

class SessionRank {
 public:
  /// The arguments but for the settings are kept by reference and must outlive it.
  SessionRank(const Training& training, Transport& transport, const DevicePtr& device,
              RunData& data, const SessionSettings& settings);
  virtual ~SessionRank() = default;
  SessionRank(const SessionRank&) = delete;

  /// Carries out rank 0's orders, until the session ends; returns true.
  virtual bool run();
  /// Tells the observers, in the handler of what this rank threw.
  void fail() noexcept;

  // What observers use, on every rank:
  Engine& engine() { return engine_; }
  RunData& data() { return data_; }
  const SessionSettings& settings() const { return settings_; }
  int first() const { return first_; }  ///< updates done before this session
  int steps() const { return steps_; }  ///< updates done by now
  /// The run's description in checkpoints from now on, to which observers add alike on every rank.
  nlohmann::json& description() { return description_; }
  PeakBook& peaks() { return peaks_; }
  const std::string& run_id() const { return run_id_; }  ///< the same in all sessions
  RunResult& left() { return left_; }                    ///< the results of a plan that failed
  /// The shortest plan from now on.
  Plans::Shared like() const { return settings_.plans->shortest(steps_); }
  /// like(), while others wait; not when the session has failed, as messages may be in flight.
  Plan plan_at_work();
  /// Notes that the state has another form now: a part of the peaks of memory begins.
  void form_changed(const std::string& part) { begun_ ? peaks_.cut(part) : void(part_ = part); }
  /// Why some observer could not go on from this update, in the midst of a plan; empty: all could.
  std::string lacks(int updates) const;

 protected:
  /// Has all ranks carry out an order, and returns their answers by rank. Rank 0 calls it.
  template <class What>
  std::vector<typename What::Answer> order(const What& what) {
    broadcast_bytes(engine_.transport(), pack(Order(what)), settings_.engine.timeout);
    std::vector<typename What::Answer> answers;
    for (std::string& bytes : answer(what))
      answers.push_back(unpack<typename What::Answer>(std::move(bytes)));
    return answers;
  }
  /// The endless plan of the run that begins now (Plans::endless); finding it can take a while.
  Plans::Shared endless_plan();
  /// Rank 0: takes results of all ranks, in the midst of an endless plan and at the end of any, and
  /// returns whether to go on.
  virtual bool hear(const std::vector<RunResult>&) { return true; }

  const SessionSettings settings_;
  Engine engine_;
  std::shared_ptr<FolderLock> claim_;  // on rank 0; outlives the observers, whose files lie there
  Observers observers_;
  RunData& data_;
  int first_ = 0, steps_ = 0;
  std::string lost_;  // what of a checkpoint this run can't use, for the user
  std::string run_id_;
  RunResult left_;
  nlohmann::json description_ = settings_.run;
  StateWriter writer_;  // ends before the claim

 private:
  void begin();
  Train::Answer run_row(const Train& what);
  Train::Answer carry_out(const Train& what);
  Ask::Answer carry_out(const Ask& what);
  Save::Answer carry_out(const Save&);
  FinishFiles::Answer carry_out(const FinishFiles&);
  End::Answer carry_out(const End&) { return {}; }

  /// The answers of all ranks, packed, on rank 0.
  template <class What>
  std::vector<std::string> answer(const What& what) {
    return gather_bytes(engine_.transport(), pack(carry_out(what)), settings_.engine.timeout);
  }

  PeakBook peaks_;
  bool begun_ = false;
  std::string part_;  // of the peaks, which follows begin(); empty: none
};

// ---- rank 0 (session_lead.cpp, saving.cpp) ----

enum class RunState { running, stopped, interrupted, finished };
const char* name_of(RunState state);

/// Rank 0, which leads all ranks.
class Lead : public SessionRank {
 public:
  using SessionRank::SessionRank;
  /// Returns whether the run is complete.
  bool run() override;

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

 private:
  friend std::vector<std::string> ask_all(Lead&, const RunObserver&, std::string);
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
  RunResult unheard_;         // results of all ranks, of updates that some ranks have still to make
  int heard_ = 0;             // the last update that all ranks have made
  int per_step_ = 1;          // microbatches of an update
  double heard_seconds_ = 0;  // when update heard_ was made
  bool clips_ = false, drifts_ = false, overlaps_ = false;
  int ahead_ = 0;  // updates that an endless run may still make when it is interrupted
  bool has_recorded_ = false;
  int record_until_ = first_ + settings_.reported_steps;  // earlier updates are recorded
  int middle_ = middle();       // later updates are recorded instead of the first ones; 0: none
  std::string since_;           // what happened before the recorded updates: RecordedUpdates::since
  bool hears_of_stop_ = false;  // whether another rank was asked to end the run
  std::optional<CommitThread> saving_;  // a checkpoint that is written while the run goes on
  // The last of the folder's checkpoints that belongs to this run; -1: none does.
  int own_step_ = first_ > 0 && settings_.resume == settings_.out ? first_ : -1;
  std::chrono::steady_clock::time_point saved_ = std::chrono::steady_clock::now();
};

}  // namespace plangrad::parallel
