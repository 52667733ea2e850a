// Each rank's records, in the order of its row, make and free values as the table of operations
// says; when weights die that nothing frees, lifetimes.h says. Chapters 06 to 09.
#include "parallel/simulation/holdings.h"

#include <algorithm>
#include <map>

#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {
namespace {

class Shelf {
 public:
  Shelf(const Plan& plan, int rank, const std::vector<int>& tied_versions, double seconds)
      : plan_(plan),
        rank_(rank),
        lives_(plan, rank, tied_versions),
        tied_(tied_versions),
        seconds_(seconds) {
    const std::set<int> stages = held_stages(plan)[rank];
    for (int stage : stages)
      for (int version = std::max(0, plan.first - plan.kept(stage) + 1); version <= plan.first;
           ++version)
        take({Value::weights, stage, version}, 0, plan.sharded >= 3);
  }

  void run(const Instruction& x, int index, double start, double end) {
    std::vector<Name> made;
    for (const Name& name : makes(plan_, x)) made.push_back(kept_as(name));
    for (const Name& need : needs(plan_, tied_, x))
      if (frees(x, need.what) && std::ranges::find(made, kept_as(need)) == made.end())
        leave(kept_as(need), end);
    for (const Name& name : made)
      if (name.what != Value::none)
        take(name, begins_pass(x) ? start : end, makes_version(x) && plan_.sharded >= 3);
    for (const auto& [stage, version] : lives_.ending_at(index))
      leave({Value::weights, stage, version}, end, true);
  }

  std::vector<Holding> finish() {
    while (!open_.empty()) leave(open_.begin()->first, seconds_, true);
    return std::move(done_);
  }

 private:
  /// The name under which a value stays on its rank; of none if it only passes.
  Name kept_as(const Name& name) const {
    if (name.what == Value::gradient_sum)
      return {Value::open_sum, name.stage, plan_.made_by(name.number)};
    if (name.what == Value::weights || name.what == Value::stash || name.what == Value::open_sum)
      return name;
    return {};
  }

  void take(const Name& name, double seconds, bool shard) {
    std::vector<Holding>& held = open_[name];
    if (std::ranges::none_of(held, [&](const Holding& h) { return h.shard == shard; }))
      held.push_back({rank_, name, shard, seconds, seconds});
  }

  /// Whole weights leave before a shard does, which stays until the version dies.
  void leave(const Name& name, double seconds, bool all = false) {
    const auto found = open_.find(name);
    if (found == open_.end()) return;
    std::vector<Holding>& held = found->second;
    std::ranges::stable_sort(held, std::greater<>(), &Holding::shard);
    while (!held.empty() && (all || !held.back().shard)) {
      held.back().end = seconds;
      done_.push_back(held.back());
      held.pop_back();
      if (!all) break;
    }
    if (held.empty()) open_.erase(found);
  }

  const Plan& plan_;
  int rank_;
  Lifetimes lives_;
  const std::vector<int>& tied_;
  double seconds_;
  std::map<Name, std::vector<Holding>> open_;
  std::vector<Holding> done_;
};

}  // namespace

std::vector<Holding> holdings(const Plan& plan, const Timeline& timeline) {
  const std::vector<int> tied = tied_versions(plan);
  std::vector<Holding> all;
  auto record = timeline.records.begin();
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    Shelf shelf(plan, rank, tied, timeline.makespan());
    for (int index = 0; index < static_cast<int>(plan.rows[rank].size()); ++index) {
      if (record == timeline.records.end() || record->rank != rank) break;
      shelf.run(record->instruction, index, record->start, record->end);
      ++record;
    }
    std::vector<Holding> held = shelf.finish();
    std::ranges::stable_sort(held, {}, &Holding::start);
    all.insert(all.end(), held.begin(), held.end());
  }
  return all;
}

}  // namespace paragrad::parallel
