// Weights that travel. A stage's home keeps its newest version and makes its steps; whoever uses a
// version passes it on as it begins its last use, and lets go of it afterwards. The home has its own.
// Chapter 08; Fournier and Oyallon 2024, section 3.2 (ZeRO-DP).
#include <algorithm>

#include "parallel/lowering/lowering.h"

namespace paragrad::parallel {

namespace {

bool same_use(const Instruction& a, const Instruction& b) {
  return a.op == b.op && a.stage == b.stage && a.micro == b.micro;
}

}  // namespace

/// The versions that are there before the plan begins.
void Lowering::begin_at_homes() {
  for (int stage = 0; stage < static_cast<int>(plan_.home.size()); ++stage)
    for (int back = plan_.kept(stage) - 1; back >= 0; --back)
      if (back <= plan_.first) begin_at_home(stage, plan_.first - back);
}

void Lowering::begin_at_home(int stage, int version) {
  has_weights_.insert({{stage, version}, plan_.home[stage]});
  waiting_at_home_.insert({stage, version});
  const auto& runs = order_.users[{stage, version}];
  if (!runs.empty()) hand_to_first(runs.front().rank);
}

/// A version leaves its home as its first user begins the computation before. If it left at once, the
/// rank that begins a training step would soon have the whole model.
void Lowering::hand_to_first(int user) {
  if (waiting_at_home_.empty()) return;
  const Row& row = plan_.rows[user];
  const auto next = std::find_if(row.begin() + ranks_[user].started, row.end(), is_use);
  if (next == row.end() || !waiting_at_home_.contains({next->stage, next->version})) return;
  if (order_.users.at({next->stage, next->version}).front().rank != user) return;
  waiting_at_home_.erase({next->stage, next->version});
  pass_weights(next->stage, next->version, plan_.home[next->stage], user);
}

void Lowering::pass_weights(int stage, int version, int from, int to) {
  if (to == from || to == plan_.home[stage]) return;
  send(from, on_weights(Op::send, stage, version), to);
  has_weights_.insert({{stage, version}, to});
}

// [snippet step_at_home]
/// Steps of homes stand where their sum comes in.
void Lowering::step_at_home(int stage, int version) {
  emit(plan_.home[stage], {.op = Op::step, .stage = stage, .version = version});
  begin_at_home(stage, version);
}
// [end snippet]

/// Ranks use a version in turn, its home, too: so that it does not come back to a rank that has not
/// let go of it.
bool Lowering::can_read(int rank, const Instruction& x) const {
  if (plan_.home.empty() || !is_use(x)) return true;
  const Cell version{x.stage, x.version};
  return has_weights_.contains({version, rank}) && order_.users.at(version).front().rank == rank;
}

/// Whether x is the last use of its weights before another rank's.
bool Lowering::ends_run(const Instruction& x) const {
  if (plan_.home.empty() || !is_use(x)) return false;
  const auto& runs = order_.users.at({x.stage, x.version});
  return !runs.empty() && same_use(runs.front().last, x);
}

// [snippet hand_over]
void Lowering::hand_over(int rank, const Instruction& x) {
  if (!ends_run(x)) return;
  const auto& runs = order_.users.at({x.stage, x.version});
  if (runs.size() > 1) pass_weights(x.stage, x.version, rank, runs[1].rank);
}

void Lowering::let_go(int rank, const Instruction& x) {
  if (!ends_run(x)) return;
  order_.users.at({x.stage, x.version}).pop_front();
  if (rank == plan_.home[x.stage]) return;
  emit(rank, on_weights(Op::drop, x.stage, x.version));
  has_weights_.erase({{x.stage, x.version}, rank});
}
// [end snippet]

}  // namespace paragrad::parallel
