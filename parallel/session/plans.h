// Plans: the plans of a run, each made and verified once for all ranks of a process.
// Not here: how a schedule makes a plan (parallel/schedules/schedule.h), and when it is run
// (session.h). Chapter 05.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "parallel/schedules/schedule.h"
#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// Ranks that are threads share it: the first one that asks for a plan makes it, the others wait
/// and get the same. The last few plans are kept.
class Plans {
 public:
  using Shared = std::shared_ptr<const VerifiedPlan>;

  /// Makes plans of a schedule; `layout` gives everything but their updates.
  Plans(std::string schedule, const Layout& layout)
      : schedule_(std::move(schedule)), layout_(layout) {}
  /// Repeats one plan, which the user gave.
  explicit Plans(Plan own) : own_(std::move(own)) {}
  virtual ~Plans() = default;

  /// The updates of each plan, if they are fixed; 0: any number.
  int fixed_steps() const { return own_ ? own_->steps : 0; }
  /// Returns the plan of updates [first, first + steps).
  /// throws: what making it throws; PlanError if it breaks a rule
  Shared get(int first, int steps);
  /// Returns the plan of one update, or of the fixed number of updates.
  Shared shortest(int first) { return get(first, std::max(1, fixed_steps())); }
  /// Returns the endless plan of a schedule that overlaps updates, from update `first` on, in which
  /// the pipeline stays full; null if it has none, or drains at each update anyway.
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
  bool has_endless_ = true;  // until it is found to have none
  std::mutex mutex_;
  std::deque<std::pair<Key, Shared>> recent_;
};

}  // namespace paragrad::parallel
