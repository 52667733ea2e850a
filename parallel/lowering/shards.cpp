// ZeRO: adds gathers of sharded weights to rows of computations. Levels 1 and 2 make weights whole
// again after each step; level 3 gathers them for a use and drops them after it.
// Not here: reductions after which a rank keeps its shard (lower_sums.cpp).
// Chapter 09; Rajbhandari et al. 2020, "ZeRO".
#include <algorithm>

#include "parallel/lowering/lowering.h"
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {
namespace {

// [snippet around_uses]
/// Gathers a use's weights while the use before it computes, unless both read the same weights.
Row around_uses(const Row& row, const Plan& plan, const std::vector<int>& tied_versions,
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

}  // namespace

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
  for (auto [stage, version] : weights_read(plan_, tied_versions_, x))
    if (version > plan_.first) {
      auto made = steps_made_.find({version, stage});
      if (made == steps_made_.end() || made->second < holders_[stage].size()) return false;
    }
  return true;
}

// [snippet gather_stepped]
/// Gathers weights that all holders have stepped, in the order in which their readers need them.
void Lowering::gather_stepped() {
  if (plan_.sharded == 3) return;
  for (const auto& [made, ranks] : steps_made_) {
    auto [version, stage] = made;
    if (ranks < holders_[stage].size() || !gathered_.insert(made).second) continue;
    int group = group_of(out_, holders_[stage]);
    for (int rank : holders_[stage])
      out_.rows[rank].push_back(on_weights(Op::gather, stage, version, group));
  }
}
// [end snippet]

}  // namespace plangrad::parallel
