// What schedules are made of, and their names.
// Not here: the orders themselves (schedules/), and messages (lower.cpp).
// Chapter 06.
#include "parallel/schedule.h"

#include <algorithm>
#include <set>
#include <utility>

#include "autograd/error.h"

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

Instruction forward(int stage, int micro, int version) {
  return {.op = Op::forward, .stage = stage, .micro = micro, .version = version};
}

Instruction backward(int stage, int micro, int version) {
  return {.op = Op::backward, .stage = stage, .micro = micro, .version = version};
}

Plan empty_plan(const Layout& layout, int ranks, int per_step, int steps, std::vector<int> keep) {
  Plan plan;
  plan.stages = layout.stages;
  plan.per_step = per_step;
  plan.steps = steps;
  plan.first = layout.first * (steps / layout.steps);  // pipedream makes several steps of one
  plan.clip = layout.clip;
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

StepPlacement suitable_placement(const Layout& layout) {
  return layout.width > 1 || layout.clip ? StepPlacement::lazy : StepPlacement::eager;
}

std::vector<int> tied_versions(const Plan& plan) {
  std::vector<int> versions(plan.last_micro() - plan.first_micro(), plan.first);
  for (const Row& row : plan.rows)
    for (const Instruction& x : row)
      if (x.op == Op::forward && !plan.tied.empty() && x.stage == plan.tied.front())
        versions.at(x.micro - plan.first_micro()) = x.version;
  return versions;
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
    std::set<int> held;
    for (const Instruction& x : row) {
      held.insert(x.stage);
      if (x.op == Op::forward) before_forward(x);
      out_.push_back(x);
      bool last = x.op == Op::backward && --left_[x.stage][plan_.made_by(x.micro)] == 0;
      if (last && placement_ == StepPlacement::eager) make(x.stage, plan_.made_by(x.micro));
    }
    // The drain: what no forward of this plan reads. Last stages are finished first.
    if (std::any_of(held.begin(), held.end(), [&](int s) { return plan_.uses_tied(s); }))
      make(plan_.stages, plan_.first + plan_.steps);
    for (auto stage = held.rbegin(); stage != held.rend(); ++stage)
      make(*stage, plan_.first + plan_.steps);
    return std::exchange(out_, {});
  }

 private:
  // [snippet before_forward]
  void before_forward(const Instruction& x) {
    if (plan_.uses_tied(x.stage)) make(plan_.stages, tied_versions_[x.micro - plan_.first_micro()]);
    if (placement_ == StepPlacement::lazy) make(x.stage, x.version);
  }
  // [end snippet]

  /// Steps that lead to `version`, as far as they are not placed yet.
  void make(int stage, int version) {
    while (made_[stage] < version)
      out_.push_back({.op = Op::step, .stage = stage, .version = ++made_[stage]});
  }

  const Plan& plan_;
  StepPlacement placement_;
  std::vector<int> tied_versions_, made_;
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

const std::map<std::string, Schedule>& schedules() {
  static const std::map<std::string, Schedule> all{{"data", data_parallel},
                                                   {"gpipe", gpipe},
                                                   {"1f1b", one_forward_one_backward},
                                                   {"pipedream", pipedream},
                                                   {"2bw", pipedream_2bw}};
  return all;
}

namespace {

Schedule find_schedule(const std::string& name) {
  auto found = schedules().find(name);
  if (found != schedules().end()) return found->second;
  std::string names;
  for (const auto& [known, schedule] : schedules()) names += " " + known;
  throw autograd::Error(autograd::text("there is no schedule \"", name, "\"; there are", names));
}

void check(const Layout& layout) {
  PG_CHECK(layout.stages > 0 && layout.width > 0 && layout.microbatches > 0 && layout.steps > 0 &&
               layout.first >= 0,
           "a plan needs at least one stage, replica, microbatch and step; got ", layout.stages,
           " stages, width ", layout.width, ", ", layout.microbatches, " microbatches, ",
           layout.steps, " steps");
  constexpr double most = 1e8;
  double micros = 1.0 * layout.width * layout.microbatches;
  PG_CHECK(micros * (layout.first + 1.0 * layout.steps) < most &&
               micros * layout.stages * layout.steps < most,
           "this plan counts to microbatch ", micros * (layout.first + 1.0 * layout.steps), " on ",
           layout.stages, " stages; at most ", most, " of them, and forwards, are made for. ",
           "Use a smaller --first, --steps or --microbatches");
}

}  // namespace

Plan make_plan(const std::string& schedule, const Layout& layout) {
  Schedule make = find_schedule(schedule);
  check(layout);
  Plan plan = make(layout);
  if (layout.recompute) add_recomputation(plan);
  return lower(std::move(plan));
}

Plan make_evaluation(const Plan& like, int first, int microbatches) {
  PG_CHECK(microbatches > 0, "an evaluation needs at least one microbatch, got ", microbatches);
  Plan plan = like;
  plan.steps = 0;
  plan.first = first;
  plan.per_step = microbatches;
  plan.clip = false;
  plan.groups.clear();
  // Who computes which stage of the microbatches of a step.
  std::map<std::pair<int, int>, int> rank_of;
  for (int rank = 0; rank < like.ranks(); ++rank)
    for (const Instruction& x : like.rows[rank])
      if (x.op == Op::forward) rank_of[{x.micro - like.first_micro(), x.stage}] = rank;
  plan.rows.assign(like.ranks(), {});
  for (int micro = 0; micro < microbatches; ++micro)
    for (int stage = 0; stage < like.stages; ++stage) {
      Row& row = plan.rows[rank_of.at({micro % like.per_step, stage})];
      row.push_back(forward(stage, micro, first));
      row.push_back({.op = Op::drop, .stage = stage, .micro = micro, .what = Value::activation});
    }
  return lower(std::move(plan));
}

Plan moved_by(Plan plan, int steps) {
  plan.first += steps;
  for (Row& row : plan.rows)
    for (Instruction& x : row) {
      if (x.micro >= 0) x.micro += steps * plan.per_step;
      if (x.version >= 0) x.version = std::max(x.version + steps, 0);
    }
  return plan;
}

}  // namespace paragrad::parallel
