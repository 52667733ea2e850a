// lower: adds to rows of computations the messages that connect them. It walks all rows together
// with a clock, messages taking no time: at each instant it ends what ends, then starts what can.
// Every message is issued at its instant, by all who take part, so all rows have them in one global
// order, and no plan that comes from here can hang, even if sends wait for their receives.
// Chapter 06.
#include <algorithm>
#include <map>
#include <queue>
#include <set>

#include "autograd/error.h"
#include "parallel/schedule.h"

namespace paragrad::parallel {
namespace {

using Cell = std::pair<int, int>;  // stage, and microbatch or version

class Lowering {
 public:
  explicit Lowering(Plan plan);
  Plan run();

 private:
  struct Rank {
    std::size_t next = 0;  // of its computations
    bool busy = false;
    Row out;
    std::map<int, std::size_t> after_recv;  // per peer: where a later recv may stand
  };

  bool can_start(const Instruction& x) const;
  void start(int rank);
  void finish(int rank);
  void send(int from, Instruction value, int to);
  void contribute(int stage, int micro);
  void finish_sum(int stage, int version);
  void add_norms(int version);
  int group_of(const std::set<int>& ranks);
  [[noreturn]] void stuck() const;

  Plan plan_;
  std::vector<Row> computations_;
  std::vector<Rank> ranks_;
  std::vector<std::set<int>> holders_;                // per stage
  std::map<Cell, int> forward_rank_, backward_rank_;  // of (stage, microbatch)
  std::map<int, std::set<int>> ranks_of_micro_;
  std::map<Cell, int> missing_;  // contributions to (stage, version)
  std::set<Cell> here_[2];       // outputs and their gradients that exist
  std::set<Cell> forwarded_;
  std::set<Cell> summed_;  // finished sums (stage, version)
  std::set<int> normed_;   // versions whose norm is known
  std::priority_queue<Cell, std::vector<Cell>, std::greater<>> ends_;  // (time, rank)
  int now_ = 0;
};

Lowering::Lowering(Plan plan)
    : plan_(std::move(plan)),
      computations_(plan_.rows),
      ranks_(plan_.rows.size()),
      holders_(plan_.stage_count()) {
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    for (const Instruction& x : computations_[rank]) {
      if (x.op == Op::forward) {
        forward_rank_.emplace(Cell{x.stage, x.micro}, rank);
        ranks_of_micro_[x.micro].insert(rank);
        holders_[x.stage].insert(rank);
      }
      if (x.op == Op::backward && x.what != Value::weight_part)
        backward_rank_.emplace(Cell{x.stage, x.micro}, rank);
      if (x.op == Op::backward && x.what != Value::input_part)
        ++missing_[{x.stage, plan_.made_by(x.micro)}];
    }
  for (int user : plan_.tied) {
    holders_.back().insert(holders_[user].begin(), holders_[user].end());
    for (int version = plan_.first + 1; version <= plan_.first + plan_.steps; ++version)
      missing_[{plan_.stages, version}] += missing_[{user, version}];
  }
}

// [snippet clock]
Plan Lowering::run() {
  for (;;) {
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      while (!ranks_[rank].busy && ranks_[rank].next < computations_[rank].size() &&
             can_start(computations_[rank][ranks_[rank].next]))
        start(rank);
    if (ends_.empty()) break;
    now_ = ends_.top().first;
    while (!ends_.empty() && ends_.top().first == now_) {
      int rank = ends_.top().second;
      ends_.pop();
      finish(rank);
    }
  }
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    if (ranks_[rank].next < computations_[rank].size()) stuck();
    plan_.rows[rank] = std::move(ranks_[rank].out);
  }
  return std::move(plan_);
}
// [end snippet]

bool Lowering::can_start(const Instruction& x) const {
  auto exists = [&](Value value, int stage) {
    return here_[value == Value::activation_gradient].contains({stage, x.micro});
  };
  if (x.op == Op::forward) return x.stage == 0 || exists(Value::activation, x.stage - 1);
  if (x.op == Op::backward)
    return x.stage == plan_.stages - 1 || exists(Value::activation_gradient, x.stage);
  if (x.op == Op::step)
    return summed_.contains({x.stage, x.version}) && (!plan_.clip || normed_.contains(x.version));
  return true;
}

void Lowering::start(int rank) {
  Rank& at = ranks_[rank];
  const Instruction& x = computations_[rank][at.next];
  at.out.push_back(x);
  at.busy = x.op == Op::forward || x.op == Op::backward;  // steps and drops take no time
  if (at.busy)
    ends_.push({now_ + 1, rank});
  else
    ++at.next;
}

void Lowering::finish(int rank) {
  Rank& at = ranks_[rank];
  const Instruction x = computations_[rank][at.next++];
  at.busy = false;
  // Whoever computes on with a result gets it: the next stage, or the one before.
  auto deliver = [&](Value what, int stage, const std::map<Cell, int>& consumers, int consumer) {
    here_[what == Value::activation_gradient].insert({stage, x.micro});
    auto found = consumers.find({consumer, x.micro});
    if (found != consumers.end() && found->second != rank)
      send(rank, {.stage = stage, .micro = x.micro, .what = what}, found->second);
  };
  if (x.op == Op::forward) {
    bool first_time = forwarded_.insert({x.stage, x.micro}).second;  // else it recomputes
    if (first_time && x.stage < plan_.stages - 1)
      deliver(Value::activation, x.stage, forward_rank_, x.stage + 1);
    return;
  }
  if (x.what != Value::weight_part && x.stage > 0)
    deliver(Value::activation_gradient, x.stage - 1, backward_rank_, x.stage - 1);
  if (x.what == Value::input_part) return;
  contribute(x.stage, x.micro);
  if (plan_.uses_tied(x.stage)) contribute(plan_.stages, x.micro);
}

/// The send goes to the end of the row. The recv goes one computation before the end of the other
/// row, so that it is posted early, but no memory is taken much before that.
void Lowering::send(int from, Instruction value, int to) {
  value.op = Op::send;
  value.peer = to;
  ranks_[from].out.push_back(value);
  value.op = Op::recv;
  value.peer = from;
  Rank& receiver = ranks_[to];
  Row& row = receiver.out;
  std::size_t place = row.size();
  while (place > 0 && row[place - 1].op != Op::forward && row[place - 1].op != Op::backward)
    --place;
  place = place == 0 ? row.size() : place - 1;
  place = std::max(place, receiver.after_recv[from]);
  row.insert(row.begin() + static_cast<std::ptrdiff_t>(place), value);
  for (auto& [peer, after] : receiver.after_recv)
    if (after >= place && peer != from) ++after;
  receiver.after_recv[from] = place + 1;
}

// [snippet contribute]
void Lowering::contribute(int stage, int micro) {
  int version = plan_.made_by(micro);
  if (--missing_[{stage, version}] > 0) return;
  const std::set<int>& holders = holders_[stage];
  if (holders.size() > 1) {
    int group = group_of(holders);
    for (int rank : holders)
      ranks_[rank].out.push_back({.op = Op::reduce,
                                  .stage = stage,
                                  .version = version,
                                  .peer = group,
                                  .what = Value::gradient_sum});
  }
  finish_sum(stage, version);
}
// [end snippet]

void Lowering::finish_sum(int stage, int version) {
  summed_.insert({stage, version});
  if (!plan_.clip) return;
  for (int other = 0; other < plan_.stage_count(); ++other)
    if (!summed_.contains({other, version})) return;
  add_norms(version);
  normed_.insert(version);
}

/// Ranks that hand microbatches to each other hold all stages between them: a replica. Each replica
/// adds up the norm for itself, once the last stage's sum is there.
void Lowering::add_norms(int version) {
  std::set<std::set<int>> replicas;
  for (int micro = (version - 1) * plan_.per_step; micro < version * plan_.per_step; ++micro)
    replicas.insert(ranks_of_micro_[micro]);
  for (const std::set<int>& replica : replicas) {
    int group = group_of(replica);
    for (int rank : replica)
      ranks_[rank].out.push_back(
          {.op = Op::reduce, .version = version, .peer = group, .what = Value::norm});
  }
}

int Lowering::group_of(const std::set<int>& ranks) {
  std::vector<int> members(ranks.begin(), ranks.end());
  auto found = std::find(plan_.groups.begin(), plan_.groups.end(), members);
  if (found == plan_.groups.end()) found = plan_.groups.insert(found, members);
  return static_cast<int>(found - plan_.groups.begin());
}

void Lowering::stuck() const {
  std::string waiting;
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    if (ranks_[rank].next < computations_[rank].size())
      waiting += autograd::text(" rank ", rank, " at ",
                                print(computations_[rank][ranks_[rank].next]), ";");
  throw autograd::Error("the computations of this schedule wait for each other:" + waiting);
}

}  // namespace

Plan lower(Plan plan) { return Lowering(std::move(plan)).run(); }

}  // namespace paragrad::parallel
