// The places of steps in rows of computations; and plans without steps, which evaluate: forwards
// only, on the ranks that hold the stages in training.
// Not here: sums, norms and gathers, for which steps wait; lowering adds those. Chapters 05 to 09.
#include <ranges>

#include "parallel/plan/lifetimes.h"
#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {
namespace {

/// Returns a row with its steps added.
Row with_steps(const Plan& plan, const Row& row, StepPlacement placement,
               const std::vector<int>& tied_versions) {
  Row out;
  std::set<int> held;                       // stages
  std::map<std::pair<int, int>, int> left;  // backwards still to come, by stage and version
  std::vector<int> made(plan.stage_count(), plan.first);
  for (const Instruction& x : row) {
    held.insert(x.stage);
    left[{x.stage, plan.made_by(x.micro)}] += goes_back(x);
  }
  // Adds the steps of a stage up to `version` that are not placed yet.
  auto make = [&](int stage, int version) {
    while (made[stage] < version)
      out.push_back({.op = Op::step, .stage = stage, .version = ++made[stage]});
  };
  // Adds them for all stages of the row, last stages first, as their sums are finished first.
  auto make_all = [&](int version) {
    if (std::any_of(held.begin(), held.end(), [&](int s) { return plan.uses_tied(s); }))
      make(plan.stages, version);
    for (auto stage = held.rbegin(); stage != held.rend(); ++stage) make(*stage, version);
  };
  // [snippet before_reader]
  auto before_reader = [&](const Instruction& x) {
    for (auto [stage, version] : weights_read(plan, tied_versions, x) | std::views::reverse)
      if (stage == plan.stages || placement == StepPlacement::lazy) make(stage, version);
    if (placement == StepPlacement::all_at_once) make_all(x.version);
  };
  // [end snippet]
  for (const Instruction& x : row) {
    before_reader(x);
    out.push_back(x);
    const int version = plan.made_by(x.micro);
    const bool last = goes_back(x) && --left[{x.stage, version}] == 0;
    if (last && placement == StepPlacement::eager) make(x.stage, version);
  }
  // Add the last steps, whose versions nothing in this plan reads.
  for (int version = plan.first + 1; version <= plan.first + plan.steps; ++version)
    make_all(version);
  return out;
}

/// Whether a stage with layers has a sum that several ranks add up.
bool has_shared_sum(const Plan& plan) {
  const std::vector<std::vector<int>> ranks = holders(plan);
  return std::any_of(ranks.begin(), ranks.begin() + plan.stages,
                     [](const std::vector<int>& all) { return all.size() > 1; });
}

/// Whether a rank holds several stages with layers.
bool has_several_stages(const Plan& plan) {
  const std::vector<std::set<int>> held = held_stages(plan);
  return std::any_of(held.begin(), held.end(), [&](const std::set<int>& stages) {
    return std::distance(stages.begin(), stages.lower_bound(plan.stages)) > 1;
  });
}

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

void place_steps(Plan& plan, StepPlacement placement) {
  const std::vector<int> tied = tied_versions(plan);
  for (Row& row : plan.rows) row = with_steps(plan, row, placement, tied);
}

/// With ZeRO, a forward waits until all holders of its stage have made their step. A step that is
/// placed behind another stage's forward could be what that forward waits for, by way of other
/// ranks. So all steps come first, where all versions are those of one update.
void place_steps(Plan& plan) {
  const bool waits = plan.clip || has_shared_sum(plan);
  const bool gathers = plan.sharded > 0 && has_several_stages(plan);
  place_steps(plan, gathers ? StepPlacement::all_at_once
                    : waits ? StepPlacement::lazy
                            : StepPlacement::eager);
}

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
