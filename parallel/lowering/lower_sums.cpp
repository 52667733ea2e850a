// How a step's gradients become one sum, and how those who make the step get it: in a group at
// once, or from rank to rank.
// Not here: when sums leave in the steady ring (steady_ring.cpp).
// Chapters 05 (groups) and 08 (rings).
#include "parallel/lowering/lowering.h"

namespace paragrad::parallel {

/// The tied stage's sum goes round only if both its users of a microbatch are on one rank.
bool Lowering::in_ring(int stage) const {
  if (path_ == SumPath::group) return false;
  if (stage < plan_.stages) return true;
  std::set<int> ranks;
  for (int user : plan_.tied) ranks.insert(backward_rank_.at({user, plan_.first_micro()}));
  return ranks.size() == 1;
}

void Lowering::adds(int stage, int micro, int rank, bool last) {
  int version = plan_.made_by(micro);
  if (in_ring(stage)) return pass_on(stage, version);
  if (!last) return;
  reduce_in_group(stage, version);
  finish_sum(stage, version, rank);
}

// [snippet reduce_in_group]
void Lowering::reduce_in_group(int stage, int version) {
  if (holders_[stage].size() == 1) return;
  int group = group_of(out_, holders_[stage]);
  for (int rank : holders_[stage]) {
    rows_.emit(rank, {.op = Op::reduce,
                      .stage = stage,
                      .version = version,
                      .peer = group,
                      .what = Value::gradient_sum});
    if (plan_.sharded >= 2)  // only the own shard of the sum is needed
      rows_.emit(rank,
                 {.op = Op::drop, .stage = stage, .version = version, .what = Value::gradient_sum});
  }
}
// [end snippet]

// [snippet pass_on]
/// Goes on with a sum as far as gradients are there, in the order of microbatches. Those that
/// follow each other on one rank are added there before the sum comes by.
void Lowering::pass_on(int stage, int version) {
  const int begin = (version - 1) * plan_.per_step, end = version * plan_.per_step;
  auto& [next, after] = ring_.try_emplace({stage, version}, RingSum{begin, begin}).first->second;
  while (next < end) {
    const int rank = backward_rank_.at({stage, next});
    for (; after < end && backward_rank_.at({stage, after}) == rank; ++after)
      if (!added(stage, after)) return;
    if (next > begin)
      rows_.emit(rank, {.op = Op::fold,
                        .stage = stage,
                        .micro = after - 1,
                        .what = Value::gradient_sum});  // what has come, and the own
    next = after;
    if (next == end) return finish_sum(stage, version, rank);
    send_sum(stage, after - 1, rank, backward_rank_.at({stage, next}), next - begin - 1);
  }
}
// [end snippet]

void Lowering::finish_sum(int stage, int version, int rank) {
  summed_.insert({stage, version});
  if (in_ring(stage)) {
    has_sum_.insert({{stage, version}, rank});
    auto& steppers = order_.steppers[{stage, version}];
    if (!plan_.home.empty()) steppers = {plan_.home[stage]};
    std::erase(steppers, rank);
    visit_next(stage, version, rank);
  }
  const bool at_homes = !plan_.home.empty();
  if (at_homes && !plan_.clip) homes_.step(stage, version);
  if (!plan_.clip) return;
  for (int other = 0; other < plan_.stage_count(); ++other)
    if (!summed_.contains({other, version})) return;
  add_norms(version);
  normed_.insert(version);
  for (int other = 0; at_homes && other < plan_.stages; ++other) homes_.step(other, version);
}

// [snippet visit_next]
/// A finished sum goes on to the next rank that steps with it; in the steady ring, without waiting
/// for the steps of those it visits.
void Lowering::visit_next(int stage, int version, int from) {
  auto& waiting = order_.steppers[{stage, version}];
  if (waiting.empty()) return;
  const int to = waiting.front(), left = static_cast<int>(waiting.size());
  waiting.pop_front();
  send_sum(stage, plan_.last_micro_of(version), from, to, 2 * plan_.per_step - 2 - left);
  if (path_ == SumPath::steady_ring) visit_next(stage, version, to);
}
// [end snippet]

/// Ranks that hand microbatches to each other hold all stages between them: a replica. Each replica
/// adds up the norm for itself, once the last stage's sum is there. Sums of a ring are on one rank
/// each, so that all ranks add up together.
void Lowering::add_norms(int version) {
  std::set<std::set<int>> replicas;
  std::set<int> all;
  for (int micro = (version - 1) * plan_.per_step; micro < version * plan_.per_step; ++micro) {
    replicas.insert(ranks_of_micro_[micro]);
    all.merge(std::set<int>(ranks_of_micro_[micro]));
  }
  if (path_ != SumPath::group || plan_.sharded > 0) replicas = {all};
  for (const std::set<int>& replica : replicas) {
    int group = group_of(out_, {replica.begin(), replica.end()});
    for (int rank : replica)
      rows_.emit(rank, {.op = Op::norm, .version = version, .peer = group, .what = Value::norm});
  }
}

}  // namespace paragrad::parallel
