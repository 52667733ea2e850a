// Ranks go through their rows, channels and groups through their queues, each when chance calls it.
// Not here: what instructions do on a rank (scalar_rank).
#include "tests/parallel/support/scalar_world.h"

#include <deque>
#include <random>

#include "tests/parallel/support/scalar_rank.h"

namespace plangrad::tests {
namespace {

using namespace parallel;

struct Channel {
  std::vector<Promise> sent, posted;
  std::size_t delivered = 0;
};

/// A member of a group, at a reduction, norm or gather.
struct Entry {
  Instruction x;
  std::map<int, Promise> brings;  // by stage
  Promise result;
};
using Group = std::vector<std::deque<Entry>>;  // by member

class World {
 public:
  World(const Plan& plan, unsigned seed, int capacity);
  ScalarOutcome run();

 private:
  struct Seat {
    ScalarRank rank;
    std::size_t at = 0;
    std::function<bool()> waits_until;  // a message is through
  };

  bool advance(int number);
  void issue(int number, const Instruction& x);
  bool deliver(Channel& channel);
  bool meet(Group& group);
  ScalarNumber result_of(const Group& group) const;

  const Plan& plan_;
  const int capacity_;
  std::mt19937 random_;
  std::vector<Seat> seats_;
  std::map<std::pair<int, int>, Channel> channels_;
  std::vector<Group> groups_;
  std::map<int, int> tied_versions_;  // by microbatch
  ScalarOutcome outcome_;
};

World::World(const Plan& plan, unsigned seed, int capacity)
    : plan_(plan), capacity_(capacity), random_(seed) {
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    seats_.push_back({ScalarRank(plan, rank, tied_versions_, outcome_), 0, nullptr});
    for (int peer = 0; peer < plan.ranks(); ++peer) channels_[{rank, peer}];
    for (const Instruction& x : plan.rows[rank])
      if (x.op == Op::forward && !plan.tied.empty() && x.stage == plan.tied[0])
        tied_versions_[x.micro] = x.version;
  }
  for (const auto& members : plan.groups) groups_.emplace_back(members.size());
}

ScalarOutcome World::run() {
  std::vector<std::function<bool()>> actors;
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    actors.push_back([=, this] { return advance(rank); });
  for (auto& [ends, channel] : channels_) actors.push_back([&] { return deliver(channel); });
  for (Group& group : groups_) actors.push_back([&] { return meet(group); });
  for (bool progress = true; progress;) {
    std::shuffle(actors.begin(), actors.end(), random_);
    progress = false;
    for (auto& act : actors) progress |= act();
  }
  for (int rank = 0; rank < plan_.ranks(); ++rank)
    if (seats_[rank].at < plan_.rows[rank].size())
      throw std::runtime_error("the ranks wait for each other");
  return outcome_;
}

bool World::advance(int number) {
  Seat& seat = seats_[number];
  const Row& row = plan_.rows[number];
  if (seat.rank.finish_folds()) return true;
  if (seat.at == row.size()) return false;
  const Instruction& x = row[seat.at];
  if (is_compute(x)) {
    if (!seat.rank.compute(x)) return false;
  } else {
    const bool is_new = !seat.waits_until;
    if (is_new) issue(number, x);
    if (is_new && capacity_ >= 0) return true;
    if (capacity_ >= 0 && !seat.waits_until()) return false;
    seat.waits_until = nullptr;
  }
  ++seat.at;
  return true;
}

void World::issue(int number, const Instruction& x) {
  Seat& seat = seats_[number];
  if (x.op == Op::send) {
    Channel& channel = channels_[{number, x.peer}];
    Promise value = seat.rank.send(x);
    channel.sent.push_back(value);
    seat.waits_until = [this, &channel, value, count = channel.sent.size()] {
      return value->ready && count <= channel.posted.size() + std::size_t(capacity_);
    };
  } else if (x.op == Op::recv) {
    channels_[{x.peer, number}].posted.push_back(seat.rank.receive(x));
    seat.waits_until = [] { return true; };
  } else {
    Promise result;
    if (x.peer < 0) {
      result = seat.rank.fold(x);
    } else {
      result = std::make_shared<ScalarNumber>();
      const auto& members = plan_.groups[x.peer];
      const auto member = std::find(members.begin(), members.end(), number) - members.begin();
      groups_[x.peer][member].push_back({x, seat.rank.enter(x, result), result});
    }
    seat.waits_until = [result] { return result->ready; };
  }
}

bool World::deliver(Channel& channel) {
  const std::size_t k = channel.delivered;
  if (k >= channel.sent.size() || k >= channel.posted.size() || !channel.sent[k]->ready)
    return false;
  *channel.posted[k] = *channel.sent[k];
  ++channel.delivered;
  return true;
}

bool World::meet(Group& group) {
  for (auto& entries : group) {
    if (entries.empty()) return false;
    for (auto& [stage, promise] : entries.front().brings)
      if (!promise->ready) return false;
  }
  const ScalarNumber result = result_of(group);
  for (auto& entries : group) {
    *entries.front().result = result;
    entries.pop_front();
  }
  return true;
}

/// Sums are added in the order of the members; in a norm every stage's finished sum counts once.
ScalarNumber World::result_of(const Group& group) const {
  const Instruction x = group[0].front().x;
  std::map<int, ScalarNumber> totals;  // by stage
  for (auto& entries : group) {
    require(entries.front().x == x, x, "the members do not meet");
    for (auto& [stage, promise] : entries.front().brings) {
      if (x.what == Value::norm && !ScalarRank::complete(plan_, stage, promise)) continue;
      auto [total, is_first] = totals.try_emplace(stage, *promise);
      if (is_first || x.op == Op::gather || x.what == Value::norm) continue;
      total->second.value += promise->value;
      total->second.gradients += promise->gradients;
    }
  }
  if (x.what != Value::norm) return totals.at(x.stage);
  require(static_cast<int>(totals.size()) == plan_.stage_count(), x, "a sum is missing");
  ScalarNumber norm{true};
  for (auto& [stage, total] : totals) norm.value += total.value * total.value;
  return norm;
}

}  // namespace

ScalarOutcome run_scalar(const Plan& plan, unsigned seed, int capacity) {
  return World(plan, seed, capacity).run();
}

}  // namespace plangrad::tests
