// lower: adds to rows of computations the messages that connect them.
// Not here: sums and norms (lower_sums.cpp), weights (lower_weights.cpp). Chapter 06.
#include "parallel/lowering/lowering.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

void send(std::vector<Row>& rows, int from, Instruction value, int to) {
  value.op = Op::send;
  value.peer = to;
  rows[from].push_back(value);
  value.op = Op::recv;
  value.peer = from;
  Row& row = rows[to];
  auto comes_first =
      [&](const Instruction& x) {  // an earlier message of the channel, an older copy's drop
        return (receives(x) && x.peer == from) ||
               (drops(x) && x.what == value.what && x.stage == value.stage);
      };
  const auto computed = std::find_if(row.rbegin(), row.rend(), uses_weights);
  auto place = computed == row.rend() ? row.end() : computed.base() - 1;
  for (auto x = place; x != row.end(); ++x)
    if (comes_first(*x)) place = x + 1;
  row.insert(place, value);
}

Lowering::Lowering(const Plan& computations, SumPath path, Order order)
    : Walk(computations),
      path_(path),
      order_(std::move(order)),
      out_(computations),
      homes_(computations, std::move(order_.users), out_.rows),
      holders_(holders(computations)),
      tied_versions_(tied_versions(computations)) {
  out_.rows.assign(plan_.ranks(), {});
  for_each_cell(plan_, [&](int rank, int, const Instruction& x) {
    if (begins_pass(x)) {
      forward_rank_.emplace(Cell{x.stage, x.micro}, rank);
      ranks_of_micro_[x.micro].insert(rank);
    }
    if (!goes_back(x)) return;
    backward_rank_.emplace(Cell{x.stage, x.micro}, rank);
    if (plan_.uses_tied(x.stage)) backward_rank_[{plan_.stages, x.micro}] = rank;
  });
}

Plan Lowering::run() {
  homes_.begin();
  walk();
  gather_stepped();
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
  if (makes_version(x) && plan_.sharded > 0 &&
      ++steps_made_[{x.version, x.stage}] == holders_[x.stage].size())
    stepped_.insert({x.version, x.stage});
  if (begins_pass(x) || (plan_.drift > 0 && goes_back(x))) gather_stepped();
  homes_.hand_over(rank, x);
  out_.rows[rank].push_back(x);
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

/// Sends a value to the rank that computes its consumer: a stage for the same microbatch.
void Lowering::deliver(int rank, Value what, int stage, int micro,
                       const std::map<Cell, int>& consumers, int consumer) {
  auto found = consumers.find({consumer, micro});
  if (found != consumers.end() && found->second != rank)
    send(out_.rows, rank, {.stage = stage, .micro = micro, .what = what}, found->second);
}

// [snippet pass_turn]
/// Sends a microbatch its turn, unless it has none to wait for.
void Lowering::pass_turn(int rank, int micro) {
  if (micro < plan_.last_micro() && has_turn(forward(0, micro, 0)))
    deliver(rank, Value::turn, 0, micro, forward_rank_, 0);
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

}  // namespace plangrad::parallel
