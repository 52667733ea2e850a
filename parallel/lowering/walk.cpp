// The clock of a walk, what computations wait for, and the first walk. An input is everywhere as
// soon as a rank has made it. Not here: messages, which take no time.
// Chapters 06 and 08 (the first walk).
#include "parallel/lowering/lowering.h"

namespace plangrad::parallel {

Walk::Walk(const Plan& plan) : plan_(plan), ranks_(plan.rows.size()), passes_(plan.passes()) {
  PG_CHECK(plan.ranks() <= most_ranks, "a plan of ", plan.ranks(), " ranks; at most ", most_ranks,
           " are possible. Use fewer --stages or a smaller --data-parallel");
  for_each_cell(plan, [&](int, int, const Instruction& x) {
    if (!adds_gradient(x)) return;
    ++missing_[{x.stage, plan.made_by(x.micro)}];
    if (plan.uses_tied(x.stage)) ++missing_[{plan.stages, plan.made_by(x.micro)}];
  });
}

// [snippet clock]
void Walk::walk() {
  for (;;) {
    while (start_what_can()) {  // a step can let another rank's step begin
    }
    if (ends_.empty()) break;
    now_ = ends_.top().first;
    while (!ends_.empty() && ends_.top().first == now_) {
      int rank = ends_.top().second;
      ends_.pop();
      finish(rank);
    }
  }
  check_end();
}
// [end snippet]

bool Walk::start_what_can() {
  bool moved = false;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const Row& row = plan_.rows[rank];
    Rank& at = ranks_[rank];
    while (!at.busy && at.next < row.size() && can_start(rank, row[at.next])) {
      start(rank);
      moved = true;
    }
  }
  return moved;
}

bool Walk::has_turn(const Instruction& x) const {
  int place = x.micro - plan_.first_micro();
  return begins_pass(x) && x.stage == 0 && first_time(x) && plan_.stagger > 0 && place > 0 &&
         (plan_.stagger > 1 || place < plan_.per_step);
}

bool Walk::can_start(int rank, const Instruction& x) const {
  if (begins_pass(x) && x.stage > 0 && !of(x.stage - 1, x.micro).forwarded) return false;
  if (goes_back(x) && x.stage < plan_.stages - 1 && !of(x.stage, x.micro).gradient) return false;
  if (has_turn(x) && !of(plan_.gap - 1, x.micro - 1).forwarded) return false;
  return ready(rank, x);
}

void Walk::start(int rank) {
  Rank& at = ranks_[rank];
  const Instruction& x = plan_.rows[rank][at.next];
  starts(rank, x);
  at.busy = uses_weights(x);
  if (at.busy)
    ends_.push({now_ + 1, rank});
  else
    ++at.next;
}

void Walk::finish(int rank) {
  Rank& at = ranks_[rank];
  const Instruction& x = plan_.rows[rank][at.next++];
  at.busy = false;
  ends(rank, x);
  if (begins_pass(x)) {
    of(x.stage, x.micro).forwarded = true;
    return;
  }
  if (makes_input_gradient(x) && x.stage > 0) of(x.stage - 1, x.micro).gradient = true;
  if (!adds_gradient(x)) return;
  of(x.stage, x.micro).added = true;
  add(x.stage, x.micro, rank);
  if (plan_.uses_tied(x.stage)) add(plan_.stages, x.micro, rank);
}

void Walk::add(int stage, int micro, int rank) {
  adds(stage, micro, rank, --missing_[{stage, plan_.made_by(micro)}] == 0);
}

bool Walk::added(int stage, int micro) const {
  if (stage < plan_.stages) return of(stage, micro).added;
  return std::ranges::all_of(plan_.tied, [&](int user) { return of(user, micro).added; });
}

/// Names the value without which a computation can't start.
std::string Walk::lacking(const Instruction& x) const {
  if (begins_pass(x) && x.stage > 0 && !of(x.stage - 1, x.micro).forwarded)
    return text("the output of ", x.stage - 1, 'F', x.micro);
  if (goes_back(x) && x.stage < plan_.stages - 1 && !of(x.stage, x.micro).gradient)
    return text("the gradient that comes from stage ", x.stage + 1, " for microbatch ", x.micro);
  return "weights, a finished sum or its turn";
}

void Walk::check_end() const {
  std::string waiting;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (const std::size_t next = ranks_[rank].next; next < plan_.rows[rank].size())
      waiting +=
          text(waiting.empty() ? " " : "; ", "rank ", rank, " is at ",
               print(plan_.rows[rank][next]), ", which needs ", lacking(plan_.rows[rank][next]));
  PG_CHECK(waiting.empty(), "the computations of this schedule wait for each other:", waiting,
           ". Move one of them behind what makes it possible");
}

namespace {

class FirstWalk : public Walk {
 public:
  using Walk::Walk;
  Order run() {
    walk();
    return std::move(order_);
  }

 private:
  bool ready(int, const Instruction& x) const override {
    if (makes_version(x)) return made_.contains({x.stage, x.version}) && knows_norm(x.version);
    return plan_.home.empty() || x.version <= plan_.first || made_.contains({x.stage, x.version});
  }

  bool knows_norm(int version) const {
    for (int stage = 0; plan_.clip && stage < plan_.stage_count(); ++stage)
      if (!made_.contains({stage, version})) return false;
    return true;
  }

  void starts(int rank, const Instruction& x) override {
    if (makes_version(x)) order_.steppers[{x.stage, x.version}].push_back(rank);
    if (plan_.home.empty() || !uses_weights(x)) return;
    auto& runs = order_.users[{x.stage, x.version}];
    if (runs.empty() || runs.back().rank != rank) runs.push_back({rank, x});
    runs.back().last = x;
  }

  void adds(int stage, int micro, int, bool last) override {
    if (last) made_.insert({stage, plan_.made_by(micro)});
  }

  Order order_;
  std::set<Cell> made_;  // versions that could be made, as (stage, version)
};

}  // namespace

Order learn_order(const Plan& computations) { return FirstWalk(computations).run(); }

}  // namespace plangrad::parallel
