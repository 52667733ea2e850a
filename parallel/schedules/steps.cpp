// The places of steps in rows of computations.
// Not here: sums, norms and gathers, for which steps wait; lowering adds those. Chapter 06.
#include <algorithm>
#include <map>
#include <ranges>
#include <set>
#include <utility>

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

}  // namespace plangrad::parallel
