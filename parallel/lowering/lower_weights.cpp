// Weights on their way. ZeRO: adds gathers of sharded weights to rows of computations. Levels 1 and
// 2 make weights whole again after each step; level 3 gathers them for a use and drops them after.
// Homes send each version of travelling weights to its users, one after another.
// Not here: reductions after which a rank keeps its shard (lower_sums.cpp), and the order of users
// (walk.cpp). Chapters 08 and 09; Fournier and Oyallon 2024, section 3.2 (ZeRO-DP); Rajbhandari et
// al. 2020, "ZeRO".
#include "parallel/lowering/lowering.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {
// [snippet around_uses]
/// Gathers a use's weights while the use before it computes, unless both read the same weights.
static Row around_uses(const Row& row, const Plan& plan, const std::vector<int>& tied_versions,
                       const std::vector<int>& groups) {
  Row out;
  std::set<std::pair<int, int>> whole;  // stage, version
  auto gather_for = [&](const Instruction& x) {
    for (auto [stage, version] : weights_read(plan, tied_versions, x))
      if (whole.insert({stage, version}).second)
        out.push_back(on_weights(Op::gather, stage, version, groups[stage]));
  };
  for (auto x = row.begin(); x != row.end(); ++x) {
    if (!uses_weights(*x)) {
      out.push_back(*x);
      continue;
    }
    gather_for(*x);
    auto next = std::find_if(x + 1, row.end(), [](const Instruction& each) {
      return makes_version(each) || uses_weights(each);
    });
    if (next != row.end() && uses_weights(*next)) gather_for(*next);  // not across a step
    out.push_back(*x);
    for (auto [stage, version] : weights_read(plan, tied_versions, *x)) {
      out.push_back(on_weights(Op::drop, stage, version));
      whole.erase({stage, version});
    }
  }
  return out;
}
// [end snippet]

void add_gathers(Plan& plan) {
  if (plan.sharded != 3 || plan.steps == 0) return;  // evaluations have their gathers
  const std::vector<int> tied = tied_versions(plan);
  std::vector<int> groups;
  for (const std::vector<int>& ranks : holders(plan)) groups.push_back(group_of(plan, ranks));
  for (Row& row : plan.rows) row = around_uses(row, plan, tied, groups);
}

/// At levels 1 and 2, whether all holders have made the steps that the instruction's weights need.
bool Lowering::stepped_everywhere(const Instruction& x) const {
  if (plan_.sharded == 0 || plan_.sharded == 3) return true;
  return std::ranges::all_of(weights_read(plan_, tied_versions_, x), [&](const auto& read) {
    const auto made = steps_made_.find({read.second, read.first});
    return read.second <= plan_.first ||
           (made != steps_made_.end() && made->second == holders_[read.first].size());
  });
}

// [snippet gather_stepped]
/// Gathers weights that all holders have stepped, in the order in which their readers need them.
void Lowering::gather_stepped() {
  if (plan_.sharded == 3) return;
  for (const auto& [version, stage] : std::exchange(stepped_, {})) {
    int group = group_of(out_, holders_[stage]);
    for (int rank : holders_[stage])
      out_.rows[rank].push_back(on_weights(Op::gather, stage, version, group));
  }
}
// [end snippet]

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
