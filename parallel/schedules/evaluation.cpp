// Plans that evaluate: forwards only. Ranks hold the stages that they hold in training.
// Chapters 05 and 09.
#include <algorithm>

#include "autograd/error.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

// [snippet add_by_stages]
/// Adds forwards of some microbatches, one stage at a time. If `ranks` have shards, they gather a
/// stage once for all these microbatches, while the stage before it computes. Ranks without
/// microbatches gather, too, because others need their shards.
void add_by_stages(Plan& plan, const std::vector<int>& ranks,
                   const std::function<void(int stage)>& add_stage) {
  auto on_all = [&](Op op, int stage, int group) {
    for (int rank : ranks) plan.rows[rank].push_back(on_weights(op, stage, plan.first, group));
  };
  auto gather = [&](int stage) { on_all(Op::gather, stage, 0); };
  auto drop = [&](int stage) { on_all(Op::drop, stage, -1); };
  for (int stage = plan.stage_count() - 1; stage >= plan.stages; --stage) gather(stage);
  gather(0);
  for (int stage = 0; stage < plan.stages; ++stage) {
    if (stage + 1 < plan.stages) gather(stage + 1);
    add_stage(stage);
    drop(stage);
  }
  for (int stage = plan.stages; stage < plan.stage_count(); ++stage) drop(stage);
}
// [end snippet]

}  // namespace

Plan make_evaluation(const Plan& like, int first, int microbatches) {
  PG_CHECK(microbatches > 0, "an evaluation needs at least one microbatch, got ", microbatches);
  Plan plan = like;
  plan.steps = 0;
  plan.first = first;
  plan.per_step = microbatches;
  plan.clip = false;
  plan.stagger = plan.in_flight = plan.drift = 0;
  plan.groups.clear();
  plan.codec = plan.channel = {};  // an evaluation measures the model alone
  // Find the rank that computes each stage of each microbatch of a step.
  std::map<std::pair<int, int>, int> rank_of;
  for (int rank = 0; rank < like.ranks(); ++rank)
    for (const Instruction& x : like.rows[rank])
      if (begins_pass(x)) rank_of[{x.micro - like.first_micro(), x.stage}] = rank;
  plan.rows.assign(like.ranks(), {});
  auto add = [&](int stage, int micro) {
    Row& row = plan.rows[rank_of.at({micro % like.per_step, stage})];
    row.push_back(forward(stage, micro, first));
    row.push_back({.op = Op::drop, .stage = stage, .micro = micro, .what = Value::activation});
  };
  if (plan.sharded == 3) plan.groups = {holders(like).front()};
  const std::vector<int> ranks = plan.groups.empty() ? std::vector<int>() : plan.groups.front();
  // Outputs are kept from stage to stage, so only some microbatches run at once.
  const int at_once = ranks.empty() ? 1 : 2 * like.ranks();
  for (int begin = 0; begin < microbatches; begin += at_once)
    add_by_stages(plan, ranks, [&](int stage) {
      for (int micro = begin; micro < std::min(begin + at_once, microbatches); ++micro)
        add(stage, micro);
    });
  const SumPath path = plan.home.empty() ? SumPath::group : SumPath::ring;
  return lower(std::move(plan), path);
}

}  // namespace plangrad::parallel
