// ZeRO: gathers of sharded weights, put into rows of computations. With stages 1 and 2 weights are
// whole again after each step; with stage 3 they are gathered for a use and dropped after it.
// Not here: reductions after which a rank keeps its shard (lower_sums.cpp), and shards (shards.h).
// Chapter 09; Rajbhandari et al. 2020, "ZeRO".
#include "parallel/lowering/lowering.h"
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {
namespace {

class Gathers {
 public:
  explicit Gathers(Plan& plan) : plan_(plan), tied_versions_(tied_versions(plan)) {
    for (const std::vector<int>& ranks : holders(plan)) groups_.push_back(group_of(plan, ranks));
  }

  void add() {
    for (Row& row : plan_.rows) row = around_uses(row);
  }

 private:
  using Version = std::pair<int, int>;  // stage, version

  Instruction gather(Version what) const {
    return on_weights(Op::gather, what.first, what.second, groups_[what.first]);
  }

  // [snippet around_uses]
  /// Each use is gathered for while the use before it computes, unless that has the same weights.
  Row around_uses(const Row& row) const {
    Row out;
    std::set<Version> whole;
    auto gather_for = [&](const Instruction& x) {
      for (Version version : weights_read(plan_, tied_versions_, x))
        if (whole.insert(version).second) out.push_back(gather(version));
    };
    auto next_use = [&](std::size_t from) {
      while (from < row.size() && !makes_version(row[from]) && !uses_weights(row[from])) ++from;
      return from < row.size() && uses_weights(row[from]) ? &row[from]
                                                          : nullptr;  // not beyond a step
    };
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (!uses_weights(row[i])) {
        out.push_back(row[i]);
        continue;
      }
      gather_for(row[i]);
      if (const Instruction* next = next_use(i + 1)) gather_for(*next);
      out.push_back(row[i]);
      for (Version version : weights_read(plan_, tied_versions_, row[i])) {
        out.push_back(on_weights(Op::drop, version.first, version.second));
        whole.erase(version);
      }
    }
    return out;
  }
  // [end snippet]

  Plan& plan_;
  std::vector<int> tied_versions_, groups_;
};

}  // namespace

void add_gathers(Plan& plan) {
  if (plan.sharded == 3 && plan.steps > 0) Gathers(plan).add();  // evaluations have theirs
}

/// With stages 1 and 2, whether all have made the steps that the instruction's weights come from.
bool Lowering::stepped_everywhere(const Instruction& x) const {
  if (plan_.sharded == 0 || plan_.sharded == 3 || !begins_pass(x)) return true;
  for (auto [stage, version] : weights_read(plan_, tied_versions_, x))
    if (version > plan_.first) {
      auto made = steps_made_.find({version, stage});
      if (made == steps_made_.end() || made->second < holders_[stage].size()) return false;
    }
  return true;
}

void Lowering::count_step(const Instruction& x) { ++steps_made_[{x.version, x.stage}]; }

// [snippet gather_stepped]
/// When weights are to be read, in the order in which forwards need them.
void Lowering::gather_stepped() {
  if (plan_.sharded == 3) return;
  for (const auto& [made, ranks] : steps_made_) {
    auto [version, stage] = made;
    if (ranks < holders_[stage].size() || !gathered_.insert(made).second) continue;
    int group = group_of(out_, holders_[stage]);
    for (int rank : holders_[stage])
      rows_.emit(rank, on_weights(Op::gather, stage, version, group));
  }
}
// [end snippet]

}  // namespace paragrad::parallel
