// Adds up a step's gradients, and brings the sum to the ranks that make the step: in a group at
// once, or in a ring from rank to rank. A steady ring sends equally many sums in every time step.
// Chapters 05 (groups) and 08 (rings).
#include "parallel/lowering/lowering.h"

namespace plangrad::parallel {

/// Whether a stage's sum moves in a ring. The tied stage's does if one rank computes all its users.
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
    if (plan_.sharded >= 2)  // the rank needs only its own shard of the sum
      out_.rows[rank].push_back(
          {.op = Op::drop, .stage = stage, .version = version, .what = Value::gradient_sum});
  }
}
// [end snippet]

// [snippet pass_on]
/// Moves a partial sum from rank to rank, in the order of microbatches, as far as their gradients
/// exist. A rank adds up its consecutive microbatches before the sum arrives.
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
                                 .what = Value::gradient_sum});  // what arrived, and its own
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
/// Sends a finished sum to the next rank that makes the step. In a steady ring, the sum does not
/// wait for the steps of the ranks that it visits.
void Lowering::visit_next(int stage, int version, int from) {
  auto& waiting = order_.steppers[{stage, version}];
  if (waiting.empty()) return;
  const int to = waiting.front(), left = static_cast<int>(waiting.size());
  waiting.pop_front();
  send_sum(stage, plan_.last_micro_of(version), from, to, 2 * plan_.per_step - 2 - left);
  if (path_ == SumPath::steady_ring) visit_next(stage, version, to);
}
// [end snippet]

/// Appends the norms. Ranks that pass microbatches to each other form a replica, which holds all
/// stages and reduces its own norm once its last sum exists. Replicas that share a rank are one.
/// A ring's sum, or a shard, is on one rank only: in such plans all ranks reduce one norm together.
void Lowering::add_norms(int version) {
  const bool is_one = path_ != SumPath::group || plan_.sharded > 0;
  std::set<std::set<int>> replicas;
  for (int micro = (version - 1) * plan_.per_step; micro < version * plan_.per_step; ++micro) {
    std::set<int> replica = ranks_of_micro_[micro];
    std::erase_if(replicas, [&](const std::set<int>& other) {
      const auto is_here = [&](int rank) { return replica.contains(rank); };
      const bool shares = is_one || std::ranges::any_of(other, is_here);
      if (shares) replica.insert(other.begin(), other.end());
      return shares;
    });
    replicas.insert(replica);
  }
  for (const std::set<int>& replica : replicas) {
    int group = group_of(out_, {replica.begin(), replica.end()});
    for (int rank : replica)
      out_.rows[rank].push_back(
          {.op = Op::norm, .version = version, .peer = group, .what = Value::norm});
  }
}

// [snippet departure]
/// The time step in which the sum of stage j leaves for hop h: N - 1 hops complete the sum, N - 1
/// bring it to all ranks that make the step. Hop h leaves at time 2N + c - j of its update, where
/// (N/2 and (N-1)/2 rounded down)
///   c = 2h + 1   if N/2 - 1 <= h < N - 2,
///   c = 2h - 1   if N <= h < N + (N-1)/2,
///   c = 2h       otherwise: the sending rank has then just finished a backward of the stage.
/// Modulo 2N, the 2N - 2 hops take every value of c but N - 3 and 2N - 3, each once: N - 1 pairs of
/// c and c + N. Over all stages, a hop fills the N time steps up to c, and a pair fills each of the
/// 2N time steps of an update once. So every time step sends N - 1 sums.
/// No sum is late: a partial sum has a time step until the next rank finishes its own backward;
/// rank m has the finished sum at 4N - 1 - j + 2m at the latest, and makes its step at 4N + j + 2m.
/// Until then the rank keeps the sum, at a time when it has few activations.
int Lowering::departure(int stage, int version, int hop) const {
  const int n = plan_.stages;
  const bool late = n / 2 - 1 <= hop && hop < n - 2;
  const bool early = n <= hop && hop < n + (n - 1) / 2;
  return 2 * n * (version - plan_.first) + 2 * hop + late - early - stage % n;  // tied: as stage 0
}
// [end snippet]

/// Sends a sum, in a steady ring not before its departure. Sums of the last version leave at once.
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

}  // namespace plangrad::parallel
