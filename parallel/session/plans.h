// Plans: the plans of a run, each made and verified once for all ranks of a process.
// Not here: how a plan is made (parallel/schedules/schedule.h), and when it is run (session.h).
// Chapter 05.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <mutex>

#include "parallel/verifier/verify.h"

namespace paragrad::parallel {

/// Ranks that are threads share it: the first one that asks for a plan makes it, the others wait
/// and get the same. The last few plans are remembered.
class Plans {
 public:
  using Make = std::function<Plan(int first, int steps)>;
  using Shared = std::shared_ptr<const VerifiedPlan>;

  explicit Plans(Make make) : make_(std::move(make)) {}

  /// The plan of steps [first, first + steps).
  /// throws: what making it throws; PlanError if it breaks a rule
  Shared get(int first, int steps);
  /// Forwards of so many microbatches on the weights of step `first`, on the ranks that compute
  /// their stages in get(first, steps).
  Shared evaluation(int first, int steps, int microbatches);

 private:
  struct Key {
    int first = 0, steps = 0, evaluated = 0;  // microbatches
    bool operator==(const Key&) const = default;
  };

  Shared find(const Key& key, const std::function<Plan()>& make);

  Make make_;
  std::mutex mutex_;
  std::deque<std::pair<Key, Shared>> recent_;
};

}  // namespace paragrad::parallel
