// Building blocks of schedules: headers, orders, recomputation.
// Not here: a whole schedule, and the places of steps (steps.cpp). Chapter 06.
#include <set>

#include "parallel/schedules/schedule.h"

namespace plangrad::parallel {

Plan empty_plan(const Layout& layout, int ranks, std::vector<int> keep) {
  Plan plan;
  plan.stages = layout.stages;
  plan.per_step = layout.per_step();
  plan.steps = layout.steps;
  plan.first = layout.first;
  plan.clip = layout.clip;
  plan.sharded = layout.zero;
  plan.drift = layout.drift;
  if (layout.tied && layout.stages > 1) plan.tied = {0, layout.stages - 1};
  if (keep.size() == 1) keep.resize(plan.stage_count(), keep[0]);
  plan.keep = std::move(keep);
  plan.rows.resize(ranks);
  return plan;
}

Plan pipeline_plan(const Layout& layout, std::vector<int> keep,
                   const std::function<void(Row&, int, int)>& append) {
  Plan plan = empty_plan(layout, pipeline_ranks(layout), std::move(keep));
  for (int rank = 0; rank < plan.ranks(); ++rank)
    append(plan.rows[rank], rank / layout.depth(), rank % layout.depth());
  place_steps(plan);
  return plan;
}

Plan flushed_plan(const Layout& layout, const WorkOfStep& append) {
  return pipeline_plan(layout, {/*keep*/ 1}, [&](Row& row, int replica, int rank) {
    for (int step = layout.first; step < layout.first + layout.steps; ++step)
      append(row, rank, step, layout.micros(replica, step));
  });
}

// [snippet append_in_turn]
void append_in_turn(Row& row, const Row& forwards, const Row& backwards, int ahead) {
  std::size_t done = 0;
  for (std::size_t next = 0; done < backwards.size();) {
    bool can_go_ahead = next < forwards.size() && next - done <= static_cast<std::size_t>(ahead);
    row.push_back(can_go_ahead ? forwards[next++] : backwards[done++]);
  }
}

void append_1f1b(Row& row, int stage, const std::vector<int>& micros, int ahead,
                 const std::function<int(int)>& version,
                 const std::function<int(int)>& backward_version) {
  const auto& of_backward = backward_version ? backward_version : version;
  Row forwards, backwards;
  for (int micro : micros) {
    forwards.push_back(forward(stage, micro, version(micro)));
    backwards.push_back(backward(stage, micro, of_backward(micro)));
  }
  append_in_turn(row, forwards, backwards, ahead);
}
// [end snippet]

static bool same_work(const Instruction& a, const Instruction& b) {
  return a.stage == b.stage && a.micro == b.micro;
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

}  // namespace plangrad::parallel
