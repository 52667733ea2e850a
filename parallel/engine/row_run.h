// RowRun: the state of one rank's row of a plan while it runs: facts that are known before, the
// stages that it touches, and its results. All parts of the interpreter share it.
// Not here: how it runs (interpreter.h). Chapter 05.
#pragma once

#include <compare>
#include <set>
#include <vector>

#include "parallel/engine/engine.h"
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {

/// A version of a stage's weights; or the gradient sum that makes it.
struct Made {
  int stage = 0, version = 0;
  friend auto operator<=>(const Made&, const Made&) = default;
};

using MakeCollective = Collective (*)(const Summing& how, int member, int members);

struct RowRun {
  /// `engine` and `verified` must outlive it. `number`: the plan's number in the run.
  RowRun(Engine& engine, const VerifiedPlan& verified, int number);

  Engine& engine;
  const Plan& plan;
  int rank, number;
  const Row& row;
  std::size_t capacity;  ///< messages that a channel holds
  std::vector<int> tied_versions;
  Lifetimes lifetimes;
  std::vector<std::vector<int>> holders;  ///< ranks, per stage
  std::set<Made> stepped;                 ///< sums that the row makes a step with
  std::set<Made> sent;                    ///< finished sums that it sends
  std::map<int, StageBuffers> visiting;   ///< by stage; another rank keeps it (cyclic, zero)
  RunResult result;

  /// The sum that an instruction acts on.
  Made sum_of(const Instruction& x) const {
    return {x.stage, x.micro >= 0 ? plan.made_by(x.micro) : x.version};
  }
  Name finished_name(const Made& sum) const {
    return {Value::gradient_sum, sum.stage, plan.last_micro_of(sum.version)};
  }

  /// The state of a stage that this rank keeps; and the buffers of any stage that the row touches.
  WeightStore& kept(int stage) { return engine.stores().at(stage); }
  StageBuffers& stage(int stage);
  /// This rank's part of a group's collective on x.
  std::shared_ptr<CollectiveRun> in_group(int group, MakeCollective make, const Tensor& x,
                                          AllReduce how,
                                          CollectiveRun::Encoding encoding = {nullptr, 0}) const;
};

}  // namespace paragrad::parallel
