// Plans: the plans of a run, each made and verified once for all ranks of a process. Borders: the
// updates after which its plans end, because all ranks have to meet there.
// Not here: how a schedule makes a plan (parallel/schedules/schedule.h), and when it is run
// (session_lead.h). Chapter 05.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "parallel/schedules/schedule.h"
#include "parallel/session/observer.h"
#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// The updates that a plan can have: `least`, and any number of times `every` more.
struct Lengths {
  int least = 1, every = 1;  ///< every 0: one length

  bool has(int steps) const {
    return steps >= least && (every == 0 ? steps == least : (steps - least) % every == 0);
  }
  /// Whether plans that follow each other can make so many updates.
  bool makes(int steps) const;
  /// The updates of a plan, `wanted` or somewhat more, behind which plans can make the rest of
  /// `left`.
  int fitted(int wanted, int left) const;
};

/// Ranks that are threads share it: the first one that asks for a plan makes it, the others wait
/// and get the same. The last few plans are kept.
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

struct SessionScope;  // session.h

class Borders {
 public:
  /// `first`: updates that were made before this session. `observers` must outlive it.
  Borders(const SessionScope& scope, int first, const Observers& observers);

  /// The updates of the run after which this session ends.
  int last() const { return last_; }
  /// The updates from `done` on to the next border.
  int distance(int done) const;
  /// What is at the border after `done` updates, the latest before them after `before`; null if
  /// there is none.
  const char* why(int before, int done) const;
  bool saves(int before, int done) const { return is_due(save_every_, before, done); }

 private:
  int last_, save_every_;
  const Observers& observers_;
};

/// throws: Error if the plans can't end at all borders behind `first`
void check_lengths(const Lengths& lengths, const Borders& borders, int first);

}  // namespace plangrad::parallel
