// Homes: sends each version of travelling weights from its home to its users, one after another.
// Not here: the order of the users (walk.cpp).
// Chapter 08; Fournier and Oyallon 2024, section 3.2 (ZeRO-DP).
#include "parallel/lowering/lowering.h"

namespace plangrad::parallel {

Homes::Homes(const Plan& computations, Users users, std::vector<Row>& rows)
    : plan_(computations),
      users_(std::move(users)),
      rows_(rows),
      begun_(computations.rows.size()) {}

void Homes::begin() {
  for (int stage = 0; stage < static_cast<int>(plan_.home.size()); ++stage)
    for (int back = plan_.kept(stage) - 1; back >= 0; --back)
      if (back <= plan_.first) appear({stage, plan_.first - back});
}

/// Records a version at its home, and sends it if its first user is due to receive it.
void Homes::appear(Version version) {
  has_.insert({version, plan_.home[version.first]});
  waiting_.insert(version);
  const auto& runs = users_[version];
  if (!runs.empty()) hand_to_first(runs.front().rank);
}

void Homes::begun(int rank) {
  ++begun_[rank];
  hand_to_first(rank);
}

/// Sends a version from its home when its first user begins the computation before the use. If
/// versions left at once, the rank that begins an update would soon hold the whole model.
void Homes::hand_to_first(int user) {
  if (waiting_.empty()) return;
  const Row& row = plan_.rows[user];
  const auto next = std::find_if(row.begin() + begun_[user], row.end(), uses_weights);
  if (next == row.end()) return;
  const Version version{next->stage, next->version};
  if (!waiting_.contains(version) || users_.at(version).front().rank != user) return;
  waiting_.erase(version);
  pass(version, plan_.home[next->stage], user);
}

void Homes::pass(Version version, int from, int to) {
  const auto [stage, number] = version;
  if (to == from || to == plan_.home[stage]) return;
  send(rows_, from, on_weights(Op::send, stage, number), to);
  has_.insert({version, to});
}

// [snippet step]
/// Appends the home's step at the point of its row where the finished sum arrives.
void Homes::step(int stage, int version) {
  rows_[plan_.home[stage]].push_back({.op = Op::step, .stage = stage, .version = version});
  appear({stage, version});
}
// [end snippet]

bool Homes::can_read(int rank, const Instruction& x) const {
  if (plan_.home.empty() || !uses_weights(x)) return true;
  const Version version{x.stage, x.version};
  return has_.contains({version, rank}) && users_.at(version).front().rank == rank;
}

/// Whether x ends its rank's run of uses of a version.
bool Homes::ends_run(const Instruction& x) const {
  if (plan_.home.empty() || !uses_weights(x)) return false;
  const auto& runs = users_.at({x.stage, x.version});
  return !runs.empty() && runs.front().last == x;
}

// [snippet hand_over]
void Homes::hand_over(int rank, const Instruction& x) {
  if (!ends_run(x)) return;
  const auto& runs = users_.at({x.stage, x.version});
  if (runs.size() > 1) pass({x.stage, x.version}, rank, runs[1].rank);
}

void Homes::let_go(int rank, const Instruction& x) {
  if (!ends_run(x)) return;
  users_.at({x.stage, x.version}).pop_front();
  if (rank == plan_.home[x.stage]) return;
  rows_[rank].push_back(on_weights(Op::drop, x.stage, x.version));
  has_.erase({{x.stage, x.version}, rank});
}
// [end snippet]

}  // namespace plangrad::parallel
