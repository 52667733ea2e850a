// Pruner: what a session asks between plans, so that a run can be pruned on its way.
// Not here: methods of pruning (sparse/).
// Chapter 11.
#pragma once

#include <limits>
#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"

namespace paragrad::parallel {

/// Each rank has its own. What they find, all ranks find alike.
class Pruner {
 public:
  static constexpr int never = std::numeric_limits<int>::max();
  virtual ~Pruner() = default;

  /// throws: Error if such a model can't be pruned as it is asked to
  virtual void check(const ParameterList& whole) const = 0;

  /// The first number of updates, `steps` or more, after which it wants to look at the weights.
  virtual int next_look(int steps) const = 0;
  /// Looks, after so many updates, and prunes if it is time. All ranks call it together, between
  /// plans. Returns what the run's log says of it.
  ///   like: a plan of the run
  virtual nlohmann::json look(Engine& engine, const Plan& like, int steps) = 0;

  /// Gives the engine, which has no state yet, the form that the checkpoint's state has.
  virtual void resume(const Checkpoint& checkpoint, Engine& engine, const Plan& like) = 0;
  /// Writes what it needs to go on, beside the state of stages: files of the checkpoint.
  virtual std::vector<CheckpointFile> write(const std::filesystem::path& folder, Engine& engine,
                                            const Plan& plan, std::int64_t step) = 0;
  /// What is pruned by now; null if nothing is.
  virtual nlohmann::json summary() const = 0;
};

}  // namespace paragrad::parallel
