// What schedules are made of: headers, orders and the places of steps.
// Not here: a whole schedule.
// Chapter 06.
#include <algorithm>
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

Plan empty_plan(const Layout& layout, int ranks, int per_step, int steps, std::vector<int> keep) {
  Plan plan;
  plan.stages = layout.stages;
  plan.per_step = per_step;
  plan.steps = steps;
  plan.first = layout.first * (steps / layout.steps);  // pipedream makes several steps of one
  plan.clip = layout.clip;
  plan.sharded = layout.zero;
  if (layout.tied && layout.stages > 1) plan.tied = {0, layout.stages - 1};
  if (keep.size() == 1) keep.resize(plan.stage_count(), keep[0]);
  plan.keep = std::move(keep);
  plan.rows.resize(ranks);
  return plan;
}

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

// [snippet alternating_plan]
Plan alternating_plan(const Layout& layout) {
  Plan plan = empty_plan(layout, pipeline_ranks(layout), layout.width * layout.microbatches,
                         layout.steps, {/*keep*/ 1});
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    int replica = rank / layout.stages, stage = rank % layout.stages;
    int ahead = std::min(layout.stages - 1 - stage, layout.microbatches);
    for (int step = layout.first; step < layout.first + layout.steps; ++step)
      append_1f1b(plan.rows[rank], stage, layout.micros(replica, step), ahead,
                  [&](int) { return step; });
  }
  place_steps(plan, suitable_placement(layout));
  return plan;
}
// [end snippet]

StepPlacement suitable_placement(const Layout& layout) {
  return layout.width > 1 || layout.clip ? StepPlacement::lazy : StepPlacement::eager;
}

namespace {

/// Places the steps of one row.
class StepPlacer {
 public:
  StepPlacer(const Plan& plan, StepPlacement placement)
      : plan_(plan), placement_(placement), tied_versions_(tied_versions(plan)) {}

  Row place(const Row& row) {
    made_.assign(plan_.stage_count(), plan_.first);
    left_.assign(plan_.stage_count(), {});
    for (const Instruction& x : row)
      if (x.op == Op::backward) ++left_[x.stage][plan_.made_by(x.micro)];
    held_.clear();
    for (const Instruction& x : row) held_.insert(x.stage);
    for (const Instruction& x : row) {
      if (x.op == Op::forward) before_forward(x);
      out_.push_back(x);
      bool last = x.op == Op::backward && --left_[x.stage][plan_.made_by(x.micro)] == 0;
      if (last && placement_ == StepPlacement::eager) make(x.stage, plan_.made_by(x.micro));
    }
    // The drain: what no forward of this plan reads.
    for (int version = plan_.first + 1; version <= plan_.first + plan_.steps; ++version)
      make_all(version);
    return std::exchange(out_, {});
  }

 private:
  // [snippet before_forward]
  void before_forward(const Instruction& x) {
    if (plan_.uses_tied(x.stage)) make(plan_.stages, tied_versions_[x.micro - plan_.first_micro()]);
    if (placement_ == StepPlacement::lazy) make(x.stage, x.version);
    if (placement_ == StepPlacement::together) make_all(x.version);
  }
  // [end snippet]

  /// Of all stages in the row; last stages' sums are finished first.
  void make_all(int version) {
    if (std::any_of(held_.begin(), held_.end(), [&](int s) { return plan_.uses_tied(s); }))
      make(plan_.stages, version);
    for (auto stage = held_.rbegin(); stage != held_.rend(); ++stage) make(*stage, version);
  }

  /// Steps that lead to `version`, as far as they are not placed yet.
  void make(int stage, int version) {
    while (made_[stage] < version)
      out_.push_back({.op = Op::step, .stage = stage, .version = ++made_[stage]});
  }

  const Plan& plan_;
  StepPlacement placement_;
  std::vector<int> tied_versions_, made_;
  std::set<int> held_;                    // stages
  std::vector<std::map<int, int>> left_;  // backwards still to come, per stage and step
  Row out_;
};

bool same_work(const Instruction& a, const Instruction& b) {
  return a.stage == b.stage && a.micro == b.micro;
}

}  // namespace

void place_steps(Plan& plan, StepPlacement placement) {
  StepPlacer placer(plan, placement);
  for (Row& row : plan.rows) row = placer.place(row);
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
