// How a step's gradients become one sum, and how those who make the step get it: in a group at
// once, or from rank to rank; in the steady ring, as many sums in each time step as in any other.
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
    out_.rows[rank].push_back({.op = Op::reduce,
                               .stage = stage,
                               .version = version,
                               .peer = group,
                               .what = Value::gradient_sum});
    if (plan_.sharded >= 2)  // only the own shard of the sum is needed
      out_.rows[rank].push_back(
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
      out_.rows[rank].push_back({.op = Op::fold,
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
      out_.rows[rank].push_back(
          {.op = Op::norm, .version = version, .peer = group, .what = Value::norm});
  }
}

// [snippet departure]
/// When the sum of stage j leaves for its hop-th time: N - 1 hops complete it, N - 1 bring it to
/// all who step with it. Hop h leaves at time 2N + c - j of its training step, where (N/2 and
/// (N-1)/2 rounded down)
///   c = 2h + 1   if N/2 - 1 <= h < N - 2,
///   c = 2h - 1   if N <= h < N + (N-1)/2,
///   c = 2h       else: then the rank that it leaves has just ended a backward of the stage.
/// Modulo 2N, the 2N - 2 hops have all values c but N - 3 and 2N - 3, each once: N - 1 pairs of a c
/// and c + N. For all stages, a hop takes the N time steps up to c, and a pair takes each of the 2N
/// time steps of an update once. So every time step has N - 1 sums.
/// None is late: a partial sum has a time step until the next rank ends its own backward; rank m
/// has the finished one at 4N - 1 - j + 2m at the latest, and steps at 4N + j + 2m. Until then the
/// sum stays there, at a time when the rank has few activations.
int Lowering::departure(int stage, int version, int hop) const {
  const int n = plan_.stages;
  const bool late = n / 2 - 1 <= hop && hop < n - 2;
  const bool early = n <= hop && hop < n + (n - 1) / 2;
  return 2 * n * (version - plan_.first) + 2 * hop + late - early - stage % n;  // tied: as stage 0
}
// [end snippet]

/// Nobody waits for the sums of the last version, which leave at once.
void Lowering::send_sum(int stage, int micro, int from, int to, int hop) {
  const int version = plan_.made_by(micro);
  auto send_now = [=, this] {
    send(out_.rows, from, {.stage = stage, .micro = micro, .what = Value::gradient_sum}, to);
    if (micro == plan_.last_micro_of(version)) has_sum_.insert({{stage, version}, to});
  };
  const bool is_held = path_ == SumPath::steady_ring && version < plan_.first + plan_.steps &&
                       departure(stage, version, hop) > now();
  if (!is_held) return send_now();
  held_.emplace(departure(stage, version, hop), send_now);
}

void Lowering::send_held() {
  while (!held_.empty() && held_.begin()->first <= now()) {
    held_.begin()->second();
    held_.erase(held_.begin());
  }
}

}  // namespace paragrad::parallel
