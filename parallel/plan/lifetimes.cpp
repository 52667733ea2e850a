// Lifetimes of weights: a reader is an instruction that computes with weights or sends them. The
// engine frees weights by these rules, and the verifier checks by them. Chapter 07.
#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

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
      if (is_compute(x) || x.what == Value::weights)
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

Lifetimes::Lifetimes(const Plan& plan, int rank, const std::vector<int>& tied_versions)
    : plan_(plan), rank_(rank), ending_(plan.rows[rank].size()) {
  const Row& row = plan.rows[rank];
  for (int i = 0; i < static_cast<int>(row.size()); ++i)
    for (const auto& read : weights_read(plan, tied_versions, row[i]))
      readers_[static_cast<int>(part_of(plan, rank, i))][read] = i;
  for (Part part : {Part::head, Part::body, Part::tail})
    for (const auto& [key, index] : readers_in(part))
      if (!needed_behind(part, key.first, key.second)) ending_[index].push_back(key);
  if (!plan.is_endless()) return;
  for (Part part : {Part::body, Part::tail})
    if (auto [first, end] = cells_of(plan, rank, part); first < end) end_at_bar(part, first);
}

int Lifetimes::last_reader(int stage, int version) const {
  for (Part part : {Part::tail, Part::body, Part::head})
    if (auto found = readers_in(part).find({stage, version}); found != readers_in(part).end())
      return found->second;
  return -1;
}

bool Lifetimes::needed_after(int stage, int version, int index) const {
  const Part part =
      index < 0 && plan_.is_endless() ? Part::head : part_of(plan_, rank_, std::max(index, 0));
  const auto reader = readers_in(part).find({stage, version});
  return (reader != readers_in(part).end() && reader->second > index) ||
         needed_behind(part, stage, version);
}

/// Whether some run goes on to read or keep a version once it has passed a part of the row.
bool Lifetimes::needed_behind(Part part, int stage, int version) const {
  if (part == Part::tail) return version >= oldest_kept(stage);
  return needed_at_second_bar(stage, part == Part::head ? version + plan_.period : version);
}

}  // namespace plangrad::parallel
