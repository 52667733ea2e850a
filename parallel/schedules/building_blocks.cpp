// Building blocks of schedules: headers, orders, the places of steps, recomputation.
// Not here: a whole schedule.
// Chapter 06.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "parallel/plan/lifetimes.h"
#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {

std::vector<int> Layout::micros(int replica, int step) const {
  std::vector<int> result(microbatches);
  for (int i = 0; i < microbatches; ++i) result[i] = (step * width + replica) * microbatches + i;
  return result;
}

std::vector<int> Layout::micros(int replica) const {
  std::vector<int> result;
  for (int step = first; step < first + steps; ++step)
    for (int micro : micros(replica, step)) result.push_back(micro);
  return result;
}

Plan empty_plan(const Layout& layout, int ranks, std::vector<int> keep) {
  Plan plan;
  plan.stages = layout.stages;
  plan.per_step = layout.per_step();
  plan.steps = layout.steps;
  plan.first = layout.first;
  plan.clip = layout.clip;
  plan.sharded = layout.zero;
  if (layout.tied && layout.stages > 1) plan.tied = {0, layout.stages - 1};
  if (keep.size() == 1) keep.resize(plan.stage_count(), keep[0]);
  plan.keep = std::move(keep);
  plan.rows.resize(ranks);
  return plan;
}

// [snippet pipeline_plan]
Plan pipeline_plan(const Layout& layout, std::vector<int> keep,
                   const std::function<void(Row&, int, int)>& append) {
  Plan plan = empty_plan(layout, pipeline_ranks(layout), std::move(keep));
  for (int rank = 0; rank < plan.ranks(); ++rank)
    append(plan.rows[rank], rank / layout.stages, rank % layout.stages);
  place_steps(plan, suitable_placement(layout));
  return plan;
}
// [end snippet]

// [snippet append_1f1b]
void append_1f1b(Row& row, int stage, const std::vector<int>& micros, int ahead,
                 const std::function<int(int)>& version) {
  std::size_t done = 0;
  for (std::size_t next = 0; done < micros.size();) {
    bool can_go_ahead = next < micros.size() && next - done <= static_cast<std::size_t>(ahead);
    int micro = micros[can_go_ahead ? next++ : done++];
    row.push_back(can_go_ahead ? forward(stage, micro, version(micro))
                               : backward(stage, micro, version(micro)));
  }
}
// [end snippet]

StepPlacement suitable_placement(const Layout& layout) {
  return layout.width > 1 || layout.clip ? StepPlacement::lazy : StepPlacement::eager;
}

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
  // [snippet before_forward]
  auto before_forward = [&](const Instruction& x) {
    if (plan.uses_tied(x.stage)) make(plan.stages, tied_versions[x.micro - plan.first_micro()]);
    if (placement == StepPlacement::lazy) make(x.stage, x.version);
    if (placement == StepPlacement::all_at_once) make_all(x.version);
  };
  // [end snippet]
  for (const Instruction& x : row) {
    if (begins_pass(x)) before_forward(x);
    out.push_back(x);
    const int version = plan.made_by(x.micro);
    const bool last = goes_back(x) && --left[{x.stage, version}] == 0;
    if (last && placement == StepPlacement::eager) make(x.stage, version);
  }
  // Add the last steps, whose versions no forward of this plan reads.
  for (int version = plan.first + 1; version <= plan.first + plan.steps; ++version)
    make_all(version);
  return out;
}

bool same_work(const Instruction& a, const Instruction& b) {
  return a.stage == b.stage && a.micro == b.micro;
}

}  // namespace

void place_steps(Plan& plan, StepPlacement placement) {
  const std::vector<int> tied = tied_versions(plan);
  for (Row& row : plan.rows) row = with_steps(plan, row, placement, tied);
}

// [snippet add_recomputation]
void add_recomputation(Plan& plan) {
  for (Row& row : plan.rows) {
    Row out;
    std::set<std::pair<int, int>> dropped;
    for (std::size_t i = 0; i < row.size(); ++i) {
      const Instruction& x = row[i];
      if (x.op == Op::backward && dropped.erase({x.stage, x.micro}))
        out.push_back(forward(x.stage, x.micro, x.version));
      out.push_back(x);
      bool needed_now =
          i + 1 < row.size() && row[i + 1].op == Op::backward && same_work(x, row[i + 1]);
      if (x.op != Op::forward || needed_now) continue;
      out.push_back(
          {.op = Op::drop, .stage = x.stage, .micro = x.micro, .what = Value::activation});
      dropped.insert({x.stage, x.micro});
    }
    row = std::move(out);
  }
}
// [end snippet]

}  // namespace paragrad::parallel
