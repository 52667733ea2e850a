// lower: adds to rows of computations the messages that connect them.
// Not here: sums and norms (lowering/lower_sums.cpp), weights (lowering/homes.h).
// Chapter 06.
#include <algorithm>

#include "parallel/lowering/lowering.h"
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {

Lowering::Lowering(const Plan& computations, SumPath path, Order order)
    : Walk(computations),
      path_(path),
      order_(std::move(order)),
      out_(computations),
      rows_(computations.ranks()),
      homes_(computations, std::move(order_.users), rows_),
      holders_(holders(computations)),
      tied_versions_(tied_versions(computations)) {
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    for (const Instruction& x : plan_.rows[rank]) {
      if (begins_pass(x)) {
        forward_rank_.emplace(Cell{x.stage, x.micro}, rank);
        ranks_of_micro_[x.micro].insert(rank);
      }
      if (!goes_back(x)) continue;
      backward_rank_.emplace(Cell{x.stage, x.micro}, rank);
      if (plan_.uses_tied(x.stage)) backward_rank_[{plan_.stages, x.micro}] = rank;
    }
}

Plan Lowering::run() {
  homes_.begin();
  walk();
  gather_stepped();
  out_.rows = rows_.take();
  return std::move(out_);
}

bool Lowering::ready(int rank, const Instruction& x) const {
  if (makes_version(x)) {
    if (plan_.clip && !normed_.contains(x.version)) return false;
    return in_ring(x.stage) ? has_sum_.contains({{x.stage, x.version}, rank})
                            : summed_.contains({x.stage, x.version});
  }
  return homes_.can_read(rank, x) && stepped_everywhere(x);
}

void Lowering::starts(int rank, const Instruction& x) {
  send_held();
  if (makes_version(x) && in_ring(x.stage)) visit_next(x.stage, x.version, rank);
  if (makes_version(x) && plan_.sharded > 0) count_step(x);
  if (begins_pass(x)) gather_stepped();
  homes_.hand_over(rank, x);
  rows_.emit(rank, x);
  homes_.begun(rank);
}

void Lowering::ends(int rank, const Instruction& x) {
  if (begins_pass(x) && first_time(x)) {
    if (x.stage < plan_.stages - 1)
      deliver(rank, Value::activation, x.stage, x.micro, forward_rank_, x.stage + 1);
    if (x.stage == plan_.gap - 1) pass_turn(rank, x.micro + 1);
  }
  if (makes_input_gradient(x) && x.stage > 0)
    deliver(rank, Value::activation_gradient, x.stage - 1, x.micro, backward_rank_, x.stage - 1);
  homes_.let_go(rank, x);
}

/// Whoever computes on with a result gets it: the next stage, or the one before.
void Lowering::deliver(int rank, Value what, int stage, int micro,
                       const std::map<Cell, int>& consumers, int consumer) {
  auto found = consumers.find({consumer, micro});
  if (found != consumers.end() && found->second != rank)
    rows_.send(rank, {.stage = stage, .micro = micro, .what = what}, found->second);
}

// [snippet pass_turn]
/// The next microbatch may begin.
void Lowering::pass_turn(int rank, int micro) {
  auto next = forward_rank_.find({0, micro});
  if (next != forward_rank_.end() && next->second != rank && has_turn(forward(0, micro, 0)))
    rows_.send(rank, {.stage = 0, .micro = micro, .what = Value::turn}, next->second);
}
// [end snippet]

int group_of(Plan& plan, const std::vector<int>& ranks) {
  auto found = std::find(plan.groups.begin(), plan.groups.end(), ranks);
  if (found == plan.groups.end()) found = plan.groups.insert(found, ranks);
  return static_cast<int>(found - plan.groups.begin());
}

Plan lower(Plan plan, SumPath path) {
  add_gathers(plan);
  Order order = path == SumPath::group ? Order{} : learn_order(plan);
  return Lowering(plan, path, std::move(order)).run();
}

}  // namespace paragrad::parallel
