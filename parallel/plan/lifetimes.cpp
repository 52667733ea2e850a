// Readers are what computes with the weights or passes them on. The engine frees by it, the
// verifier checks by it.
// Chapter 07.
#include "parallel/plan/lifetimes.h"

#include "parallel/schedules/schedule.h"

namespace paragrad::parallel {

std::vector<std::set<int>> held_stages(const Plan& plan) {
  std::vector<std::set<int>> held(plan.ranks());
  for (int stage = 0; stage < static_cast<int>(plan.home.size()); ++stage)
    held[plan.home[stage]].insert(stage);
  if (!plan.home.empty()) return held;
  for (int rank = 0; rank < plan.ranks(); ++rank)
    for (const Instruction& x : plan.rows[rank]) {
      bool computes = x.op == Op::forward || x.op == Op::backward;
      if (computes || x.op == Op::step || x.op == Op::gather) held[rank].insert(x.stage);
      if (computes && plan.uses_tied(x.stage)) held[rank].insert(plan.stages);
    }
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
  std::set<int> stages;
  for (const Instruction& x : plan.rows[rank])
    if (x.op == Op::forward || x.op == Op::backward || x.op == Op::step ||
        x.what == Value::gradient_sum || x.what == Value::weights)
      stages.insert(x.stage);
  return stages;
}

std::set<int> summed_stages(const Plan& plan, int rank) {
  std::set<int> stages;
  for (const Instruction& x : plan.rows[rank])
    if (x.what == Value::gradient_sum && !is_compute(x.op) && (x.op != Op::reduce || x.peer >= 0))
      stages.insert(x.stage);
  return stages;
}

std::vector<std::pair<int, int>> weights_read(const Plan& plan,
                                              const std::vector<int>& tied_versions,
                                              const Instruction& x) {
  if (x.op == Op::step) return {{x.stage, x.version - 1}};
  if (x.what == Value::weights && x.op != Op::recv) return {{x.stage, x.version}};
  if (x.op != Op::forward && x.op != Op::backward) return {};
  if (!plan.uses_tied(x.stage)) return {{x.stage, x.version}};
  return {{x.stage, x.version}, {plan.stages, tied_versions.at(x.micro - plan.first_micro())}};
}

Lifetimes::Lifetimes(const Plan& plan, const Row& row) : plan_(plan) {
  const std::vector<int> tied = tied_versions(plan);
  for (int i = 0; i < static_cast<int>(row.size()); ++i)
    for (const auto& read : weights_read(plan, tied, row[i])) last_reader_[read] = i;
  for (const auto& [key, index] : last_reader_)
    if (!outlives(key.first, key.second)) ending_[index].push_back(key);
}

bool Lifetimes::outlives(int stage, int version) const {
  return version > plan_.first + plan_.steps - plan_.kept(stage);
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
