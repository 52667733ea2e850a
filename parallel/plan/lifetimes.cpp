// Lifetimes of weights: a reader is an instruction that computes with weights or sends them. The
// engine frees weights by these rules, and the verifier checks by them.
// Chapter 07.
#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {

std::vector<int> tied_versions(const Plan& plan) {
  std::vector<int> versions(plan.last_micro() - plan.first_micro(), plan.first);
  for (const Row& row : plan.rows)
    for (const Instruction& x : row)
      if (begins_pass(x) && !plan.tied.empty() && x.stage == plan.tied.front())
        versions.at(x.micro - plan.first_micro()) = x.version;
  return versions;
}

std::vector<std::set<int>> held_stages(const Plan& plan) {
  std::vector<std::set<int>> held(plan.ranks());
  for (int stage = 0; stage < static_cast<int>(plan.home.size()); ++stage)
    held[plan.home[stage]].insert(stage);
  if (!plan.home.empty()) return held;
  const std::vector<int> tied = tied_versions(plan);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (const Instruction& x : plan.rows[rank])
      for (auto [stage, version] : weights_read(plan, tied, x)) held[rank].insert(stage);
  return held;
}

std::vector<std::vector<int>> holders(const Plan& plan) {
  std::vector<std::vector<int>> ranks(plan.stage_count());
  const auto held = held_stages(plan);
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (int stage : held[rank]) ranks[stage].push_back(rank);
  return ranks;
}

std::set<int> visited_stages(const Plan& plan, int rank) {
  const std::vector<int> tied = tied_versions(plan);
  std::set<int> stages;
  for (const Instruction& x : plan.rows[rank]) {
    if (x.what == Value::gradient_sum || x.what == Value::weights) stages.insert(x.stage);
    for (auto [stage, version] : weights_read(plan, tied, x)) stages.insert(stage);
  }
  return stages;
}

std::set<int> summed_stages(const Plan& plan, int rank) {
  std::set<int> stages;
  for (const Instruction& x : plan.rows[rank])
    if (x.what == Value::gradient_sum && !is_compute(x) && x.peer >= 0) stages.insert(x.stage);
  return stages;
}

std::vector<std::pair<int, int>> weights_read(const Plan& plan,
                                              const std::vector<int>& tied_versions,
                                              const Instruction& x) {
  std::vector<std::pair<int, int>> read;
  for (const Name& name : needs(plan, tied_versions, x))
    if (name.what == Value::weights) read.emplace_back(name.stage, name.number);
  return read;
}

Lifetimes::Lifetimes(const Plan& plan, const Row& row, const std::vector<int>& tied_versions)
    : plan_(plan), ending_(row.size()) {
  for (std::size_t i = 0; i < row.size(); ++i)
    for (const auto& read : weights_read(plan, tied_versions, row[i]))
      last_reader_[read] = static_cast<int>(i);
  for (const auto& [key, index] : last_reader_)
    if (key.second < oldest_kept(key.first)) ending_[index].push_back(key);
}

int Lifetimes::last_reader(int stage, int version) const {
  auto found = last_reader_.find({stage, version});
  return found == last_reader_.end() ? -1 : found->second;
}

}  // namespace paragrad::parallel
