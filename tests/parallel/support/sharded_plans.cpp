// See sharded_plans.h.
#include "tests/parallel/support/sharded_plans.h"

#include <numeric>

#include "parallel/plan/lifetimes.h"

namespace plangrad::tests {

using namespace plangrad::parallel;

namespace {

Instruction reduce(int stage, int version) {
  return {
      .op = Op::reduce, .stage = stage, .version = version, .peer = 0, .what = Value::gradient_sum};
}

Instruction gather(int stage, int version, int group = 0) {
  return {
      .op = Op::gather, .stage = stage, .version = version, .peer = group, .what = Value::weights};
}

Instruction drop(int stage, int version, Value what) {
  return {.op = Op::drop, .stage = stage, .version = version, .what = what};
}

Instruction step(int stage, int version) {
  return {.op = Op::step, .stage = stage, .version = version};
}

/// A step's forwards and backwards on one rank, each with its reduction.
class Uses {
 public:
  Uses(const ShardedLayout& layout, int rank, int version) : layout_(layout), version_(version) {
    int begin = (version * layout.ranks + rank) * layout.microbatches;
    for (int micro = begin; micro < begin + layout.microbatches; ++micro) {
      for (int stage = 0; stage < layout.stages; ++stage)
        uses_.push_back(forward(stage, micro, version));
      for (int stage = layout.stages - 1; stage >= 0; --stage)
        uses_.push_back(backward(stage, micro, version));
    }
    last_ = begin + layout.microbatches - 1;
  }

  void append_to(Row& row) const {
    for (std::size_t i = 0; i < uses_.size(); ++i) {
      const Instruction& use = uses_[i];
      if (layout_.zero == 3) append_gathers(row, i);
      row.push_back(use);
      if (use.op == Op::backward && use.micro == last_) {
        row.push_back(reduce(use.stage, version_ + 1));
        if (layout_.zero >= 2) row.push_back(drop(use.stage, version_ + 1, Value::gradient_sum));
      }
      if (layout_.zero == 3) row.push_back(drop(use.stage, version_, Value::weights));
    }
  }

 private:
  bool follows_itself(std::size_t i) const { return i > 0 && uses_[i].stage == uses_[i - 1].stage; }

  /// The weights of a use are gathered one use ahead, but after their drop.
  void append_gathers(Row& row, std::size_t i) const {
    if (i == 0 || follows_itself(i)) row.push_back(gather(uses_[i].stage, version_));
    if (i + 1 < uses_.size() && !follows_itself(i + 1))
      row.push_back(gather(uses_[i + 1].stage, version_));
  }

  const ShardedLayout& layout_;
  int version_, last_;
  std::vector<Instruction> uses_;
};

Plan header(const ShardedLayout& layout) {
  Plan plan;
  plan.stages = layout.stages;
  plan.per_step = layout.ranks * layout.microbatches;
  plan.steps = layout.steps;
  plan.first = layout.first;
  plan.sharded = layout.zero;
  plan.clip = layout.clip;
  plan.groups.emplace_back(layout.ranks);
  std::iota(plan.groups[0].begin(), plan.groups[0].end(), 0);
  plan.rows.resize(layout.ranks);
  return plan;
}

}  // namespace

Plan sharded_plan(const ShardedLayout& layout) {
  Plan plan = header(layout);
  for (int rank = 0; rank < layout.ranks; ++rank)
    for (int version = layout.first; version < layout.first + layout.steps; ++version) {
      Row& row = plan.rows[rank];
      Uses(layout, rank, version).append_to(row);
      if (layout.clip)
        row.push_back({.op = Op::norm, .version = version + 1, .peer = 0, .what = Value::norm});
      for (int stage = layout.stages - 1; stage >= 0; --stage) {
        row.push_back(step(stage, version + 1));
        if (layout.zero < 3) row.push_back(gather(stage, version + 1));
      }
    }
  return plan;
}

Plan sharded_evaluation(const ShardedLayout& layout, int microbatches) {
  Plan plan = header(layout);
  plan.steps = 0;
  plan.clip = false;
  plan.per_step = microbatches;
  for (int rank = 0; rank < layout.ranks; ++rank)
    for (int stage = 0; stage < layout.stages; ++stage) {
      Row& row = plan.rows[rank];
      row.push_back(gather(stage, layout.first));
      if (rank < microbatches) {
        row.push_back(forward(stage, rank, layout.first));
        row.push_back({.op = Op::drop, .stage = stage, .micro = rank, .what = Value::activation});
      }
      row.push_back(drop(stage, layout.first, Value::weights));
    }
  return plan;
}

Plan with_zero_1(Plan plan) {
  plan.sharded = 1;
  const auto ranks = holders(plan);
  std::vector<int> everybody(plan.ranks());
  std::iota(everybody.begin(), everybody.end(), 0);
  auto group_of = [&](const std::vector<int>& members) {
    auto found = std::find(plan.groups.begin(), plan.groups.end(), members);
    if (found == plan.groups.end()) found = plan.groups.insert(found, members);
    return static_cast<int>(found - plan.groups.begin());
  };
  for (Row& row : plan.rows) {
    Row sharded;
    for (Instruction& x : row) {
      if (x.what == Value::norm) x.peer = group_of(everybody);  // every shard counts
      sharded.push_back(x);
      if (x.op == Op::step) sharded.push_back(gather(x.stage, x.version, group_of(ranks[x.stage])));
    }
    row = sharded;
  }
  return plan;
}

}  // namespace plangrad::tests
