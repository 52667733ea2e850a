// Readers are forwards and backwards; those of a stage that uses the tied tensor read that, too.
// Chapter 07.
#include "parallel/lifetimes.h"

#include <algorithm>
#include <set>

#include "parallel/schedule.h"

namespace paragrad::parallel {
namespace {

bool uses_tied(const Plan& plan, int stage) {
  return std::count(plan.tied.begin(), plan.tied.end(), stage) > 0;
}

}  // namespace

std::vector<int> stages_of(const Plan& plan, const Row& row) {
  std::set<int> stages;
  for (const Instruction& x : row) {
    if (x.op != Op::forward && x.op != Op::backward && x.op != Op::step) continue;
    stages.insert(x.stage);
    if (uses_tied(plan, x.stage)) stages.insert(plan.stages);
  }
  return {stages.begin(), stages.end()};
}

Lifetimes::Lifetimes(const Plan& plan, const Row& row) : plan_(plan) {
  const std::vector<int> tied = tied_versions(plan);
  for (int i = 0; i < static_cast<int>(row.size()); ++i) {
    const Instruction& x = row[i];
    if (x.op != Op::forward && x.op != Op::backward) continue;
    last_reader_[{x.stage, x.version}] = i;
    if (uses_tied(plan, x.stage))
      last_reader_[{plan.stages, tied.at(x.micro - plan.first_micro())}] = i;
  }
  for (const auto& [key, index] : last_reader_)
    if (!outlives(key.first, key.second)) ending_[index].push_back(key);
}

bool Lifetimes::outlives(int stage, int version) const {
  return version > plan_.first + plan_.steps - plan_.keep.at(stage);
}

bool Lifetimes::needed_after(int stage, int version, int index) const {
  auto found = last_reader_.find({stage, version});
  return outlives(stage, version) || (found != last_reader_.end() && found->second > index);
}

const std::vector<std::pair<int, int>>& Lifetimes::ending_at(int index) const {
  static const std::vector<std::pair<int, int>> none;
  auto found = ending_.find(index);
  return found == ending_.end() ? none : found->second;
}

}  // namespace paragrad::parallel
