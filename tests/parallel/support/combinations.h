// Combinations: the schedules with every choice that goes with them, all choices with all others,
// as runs that threads, MPI and devices make and that the serial interpreter makes too.
// Not here: one choice at a time, with what it changes (engine/schedules_grid_test).
#pragma once

#include "tests/parallel/support/small_run.h"

namespace plangrad::tests {

struct Combination {
  std::string schedule;
  Layout layout;
  bool pruned = false;   ///< four of five weights, in the form of SAMO
  bool endless = false;  ///< three bodies of an endless plan; else two plans
};
std::ostream& operator<<(std::ostream& out, const Combination& x);

/// The schedules of today x {data parallel 1, 2} x {recompute} x {ZeRO 1} x {codec} x {SAMO}; some
/// clip, and some have tied embeddings.
std::vector<Combination> combinations_of_today();
/// Schedules whose gradients are late x {data parallel 1, 2, or settings} x {recompute} x {tied} x
/// {clip} x {codec} x {SAMO}.
std::vector<Combination> endless_combinations();

/// A combination, ready to run.
class CombinedRun {
 public:
  explicit CombinedRun(const Combination& combination);

  int ranks() const { return plans_[0].plan().ranks(); }
  Outcome serially(const DevicePtr& device = {});
  /// A thread per rank, as run_by_engine.
  Outcome by_threads(int capacity, const TakeSeat& take_seat = {});
  /// One rank, in the calling thread.
  void by_engine(Engine& engine);
  const Training& training() const { return training_; }

 private:
  Training training_;
  std::vector<VerifiedPlan> plans_;
  Course course_;
  SmallBatches batches_;
};

}  // namespace plangrad::tests
