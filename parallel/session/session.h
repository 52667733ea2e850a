// Session: trains one run from its start, or from a checkpoint, to its end or a stop: plan after
// plan, with checkpoints between them. Rank 0 leads: it orders what is done next, and all ranks
// carry it out together. What else a run does, its observers do (observer.h). Plans: the plans of a
// run, each made and verified once for all ranks of a process. Borders: the updates after which its
// plans end, because all ranks have to meet there.
// Not here: flags, models and data, which a program brings; how a schedule makes a plan
// (schedules/schedule.h); the observers (parallel/observers/). Chapters 05 and 11.
//
// The room parallel/session is a run from its first update to its last:
// session_rank.h    every rank: carries out orders; session_lead.cpp: rank 0 decides what is next
// observer.h        what a run does beside: it logs, validates, prunes, reports
// saving.h          rank 0 saves while the run goes on; state_files.cpp: the files of each rank, of
//                   weights, optimizer state and what codecs remember, written and read back
// agreement.h       ranks compare what they run, and replicas their weights; one run writes to a
//                   folder, which all ranks see
// session.h         run_session(), which runs it all; plans.cpp: its plans
#pragma once

#include <atomic>

#include "parallel/engine/engine.h"
#include "parallel/schedules/schedule.h"
#include "parallel/session/observer.h"

namespace plangrad::parallel {

class FolderLock;

/// The data of a run. Each rank has its own.
class RunData {
 public:
  virtual ~RunData() = default;
  virtual Batches& training() = 0;
  /// All validation data, or a few batches of it that are spread evenly, as microbatches 0, 1, ...
  virtual Batches& validation(bool all) = 0;
  /// One weight for each of these microbatches: how much its mean loss counts.
  virtual std::vector<double> validation_weights(bool all) const = 0;
};

/// The user's settings of a session: its folders, its length, and when it saves.
struct SessionScope {
  std::filesystem::path out = "out", resume;
  /// What the run continues from, in `resume`: all ranks of a process read this one, whatever is
  /// saved there meanwhile. Null: it begins anew.
  std::shared_ptr<nn::OpenedCheckpoint> resumed = nullptr;
  std::shared_ptr<FolderLock> lock = nullptr;  ///< locks `out`, on rank 0; null: the session does
  std::int64_t given_up = -1;                  ///< see nn::Retention
  bool overwrite = false;                      ///< the user gives up what `out` holds
  int steps = 2000, stop_after = 0;  ///< updates of the whole run; of this session, 0: any
  int save_every = 0;                ///< updates; 0: only at the end
  double save_minutes = 10;          ///< saves at the next chance after so long; 0: never
  int keep = 2;                      ///< checkpoints that stay in the folder

  /// The description of the run that is continued.
  const nlohmann::json& resumed_run() const { return *resumed->manifest().run; }
  /// Opens the newest checkpoint of a run to continue from it; with an empty path, does nothing.
  void resume_from(const std::filesystem::path& run) {
    if (run.empty()) return;
    resume = run;
    resumed =
        std::make_shared<nn::OpenedCheckpoint>(nn::find_intact(run / "checkpoint").checkpoint);
  }
};

// ---- plans (plans.cpp) ----

/// The updates that a plan can have: `least`, and any number of times `every` more.
struct Lengths {
  int least = 1, every = 1;  ///< every 0: one length

  bool has(int steps) const {
    return steps >= least && (every == 0 ? steps == least : (steps - least) % every == 0);
  }
  /// Whether plans that follow each other can make so many updates.
  bool makes(int steps) const;
  /// The updates of a plan, `wanted` or a few more, after which plans can make the rest of `left`.
  int fitted(int wanted, int left) const;
};

/// The last few plans of a process. Ranks that are threads share them: the first one that asks for
/// a plan makes it, the others wait and get the same.
class Plans {
 public:
  using Shared = std::shared_ptr<const VerifiedPlan>;

  /// Makes plans of a schedule; `layout` gives everything but their updates.
  Plans(std::string schedule, const Layout& layout)
      : schedule_(std::move(schedule)), layout_(layout) {}
  /// Repeats one plan, which the user gave. An endless one begins with the run, and its body
  /// repeats as often as the run needs.
  /// throws: Error if an endless plan can't begin anew later in the run
  explicit Plans(Plan own);
  virtual ~Plans() = default;

  /// The updates that a plan can have.
  const Lengths& lengths() const { return lengths_; }
  /// The updates of each plan, if they are fixed; 0: they vary.
  int fixed_steps() const { return lengths_.every == 0 ? lengths_.least : 0; }
  /// Returns the plan of updates [first, first + steps).
  /// throws: what making it throws; PlanError if it breaks a rule
  Shared get(int first, int steps);
  /// Returns the plan of one update, or of as few as a plan can have.
  Shared shortest(int first) { return get(first, lengths_.least); }
  /// Makes and verifies plans of one and of more of the `left` updates from `first` on. A schedule
  /// can be wrong where updates follow each other.
  void check(int first, int left);
  /// Returns the endless plan from update `first` on, in which the pipeline stays full: the user's,
  /// or that of a schedule that overlaps updates; null if it has none, or drains at each update.
  Shared endless(int first);
  /// Returns the plan that evaluates version `first` of the weights on `microbatches` microbatches,
  /// on the ranks that compute their stages in shortest(first).
  Shared evaluation(int first, int microbatches);

 protected:
  virtual Plan make(int first, int steps) const;

 private:
  struct Key {
    int first = 0, steps = 0, evaluated = 0;  // microbatches
    bool endless = false;
    bool operator==(const Key&) const = default;
  };

  Shared find(const Key& key, const std::function<std::optional<Plan>()>& make);

  std::string schedule_;
  Layout layout_;
  std::optional<Plan> own_;
  Lengths lengths_;
  std::atomic<bool> has_endless_ = true;  // until it is found to have none
  std::mutex mutex_;
  std::deque<std::pair<Key, Shared>> recent_;
};

/// The updates after which a plan must end: checkpoints, what observers ask for, and the end.
class Borders {
 public:
  /// `first`: updates that were made before this session. `observers` must outlive it.
  Borders(const SessionScope& scope, int first, const Observers& observers);

  /// The updates of the run after which this session ends.
  int last() const { return last_; }
  /// The updates from `done` on to the next border.
  int distance(int done) const;
  /// Says why a plan ends after `done` updates, where the last one ended after `before`; or null.
  const char* why(int before, int done) const;
  bool saves(int before, int done) const { return is_due(save_every_, before, done); }

 private:
  int last_, save_every_;
  const Observers& observers_;
};

/// throws: Error if the plans can't end at all borders behind `first`
void check_lengths(const Lengths& lengths, const Borders& borders, int first);

struct SessionSettings : SessionScope {
  Engine::Settings engine;       ///< hierarchical sums without hosts take the hosts' names
  std::shared_ptr<Plans> plans;  ///< shared by all ranks of this process
  int reported_steps = 4;        ///< updates of a plan that is recorded, unless plans fix them
  nlohmann::json run;            ///< the description of the run in checkpoints
  /// Makes a rank's observers.
  std::function<Observers()> observers = [] { return Observers(); };
  std::function<bool()> interrupted = [] { return false; };       ///< asked on rank 0
  std::function<bool()> interrupted_here = [] { return false; };  ///< asked on other ranks
};

/// throws: Error if hierarchical sums of gradients would equal scatter-reduce-allgather in every
///         group, since its members are all on one host, or each on a host of its own
void check_hosts(const Plan& plan, const std::vector<int>& hosts);

/// The updates of a plan that takes about a second, so that progress shows and an interruption is
/// noticed: for schedules without an endless plan (Plans::endless). A plan fills and drains: in a
/// schedule whose updates overlap it has at least `fewest` updates, or the overlap would be lost.
/// Other schedules wait at each update anyway.
int steps_in_a_second(double seconds_per_step, bool overlaps_updates, int fewest);

/// Runs the session. All ranks call it together, with equal settings. Returns whether the run is
/// complete; ranks other than 0 return true.
/// throws: Error if the run is impossible, before anything is written; or if a rank fails, after
///         its observers have heard of it
bool run_session(const Training& training, Transport& transport, const DevicePtr& device,
                 RunData& data, const SessionSettings& settings);

}  // namespace plangrad::parallel
