// The life of a version on a rank: there from the start, made by a step, or brought by a message;
// gone with its last reader once it has a successor, or, if a message brought it, with a drop.
// Not here: gradient sums (sums).
// Chapter 07.
#include "parallel/verifier/versions.h"

#include <algorithm>

#include "parallel/plan/lifetimes.h"

namespace paragrad::parallel {
namespace {

std::string show(int version) { return version < 0 ? "none" : std::to_string(version); }

}  // namespace

Versions::Versions(const Plan& plan, int rank, const std::set<int>& held,
                   const std::vector<int>& tied_versions)
    : plan_(plan), rank_(rank), held_stages_(held), tied_versions_(tied_versions) {
  int index = 0;
  for (const Instruction& x : plan.rows[rank]) {
    for (auto [stage, version] : weights_read(plan, tied_versions, x))
      last_reader_[key(Value::weights, stage, version)] = index;
    ++index;
  }
  for (int stage : held) {
    int oldest = std::max(0, oldest_kept(stage) - plan.steps);
    for (int version = oldest; version <= plan.first; ++version)
      held_[stage].push_back({.version = version, .own = true, .whole = plan.sharded < 3});
    count(stage);
    for (int version = oldest; version < plan.first; ++version)
      if (!last_reader_.contains(key(Value::weights, stage, version))) retire(stage, version);
  }
}

int Versions::oldest_kept(int stage) const {
  return plan_.first + plan_.steps - plan_.kept(stage) + 1;
}

Versions::Held* Versions::find(int stage, int version) {
  for (Held& held : held_[stage])
    if (held.version == version) return &held;
  return nullptr;
}

const Versions::Held& Versions::find_or_refuse(const Place& at, int stage, int version) const {
  if (auto found = held_.find(stage); found != held_.end())
    for (const Held& held : found->second)
      if (held.version == version) return held;
  refuse("version", at, "reads version ", version, " of stage ", stage,
         "; there: ", list(versions_of(stage)));
}

std::vector<int> Versions::versions_of(int stage) const {
  std::vector<int> versions;
  if (auto found = held_.find(stage); found != held_.end())
    for (const Held& held : found->second) versions.push_back(held.version);
  return versions;
}

int Versions::newest(int stage) const {
  int newest = -1;
  if (auto found = held_.find(stage); found != held_.end())
    for (const Held& held : found->second)
      if (held.own) newest = std::max(newest, held.version);
  return newest;
}

void Versions::count(int stage) { peak_ = std::max(peak_, static_cast<int>(held_[stage].size())); }

void Versions::count_in_use(int stage, int index) {
  int in_use = 0;
  for (const Held& held : held_[stage]) {
    const auto last = last_reader_.find(key(Value::weights, stage, held.version));
    in_use += held.begun && last != last_reader_.end() && last->second >= index;
  }
  peak_in_use_ = std::max(peak_in_use_, in_use);
}

std::vector<int> Versions::read(const Place& at) {
  std::vector<int> brought_by;
  for (auto [stage, version] : weights_read(plan_, tied_versions_, at.instruction())) {
    find_or_refuse(at, stage, version);
    Held& held = *find(stage, version);
    if (!held.whole)
      refuse("gathered", at, "only this rank's shard of version ", version, " of stage ", stage,
             " is there; gather it before");
    brought_by.push_back(held.brought_by);
    held.begun = true;
    count_in_use(stage, at.index);
  }
  return brought_by;
}

void Versions::receive(const Place& at) {
  const Instruction& x = at.instruction();
  if (find(x.stage, x.version))
    refuse("match", at, describe(value_of(x)), " is here, or on its way, already");
  held_[x.stage].push_back({x.version, false, true, true, at.index, true});
}

void Versions::gather(const Place& at) {
  const Instruction& x = at.instruction();
  find_or_refuse(at, x.stage, x.version);
  Held& held = *find(x.stage, x.version);
  if (held.whole)
    refuse("gathered", at, "the whole of version ", x.version, " of stage ", x.stage,
           " is here already");
  held.whole = true;
  held.copy = plan_.sharded == 3;  // with 1 and 2, whole weights live as long as their version
  held.brought_by = at.index;
}

void Versions::step(const Place& at) {
  const Instruction& x = at.instruction();
  if (newest(x.stage) != x.version - 1)
    refuse("order", at, "makes version ", x.version, " of stage ", x.stage, ", newest is ",
           show(newest(x.stage)), "; steps follow each other");
  held_[x.stage].push_back(
      {.version = x.version, .own = true, .whole = plan_.sharded == 0, .begun = true});
}

int Versions::drop(const Place& at) {
  const Instruction& x = at.instruction();
  Held* held = find(x.stage, x.version);
  if (!held || !held->whole)
    refuse("drop", at, "nothing to drop; there: versions ", list(versions_of(x.stage)),
           held ? ", of this one a shard, which stays" : "");
  const int brought_by = held->brought_by;
  held->whole = held->copy = false;
  if (plan_.sharded == 0 || !held->own)
    std::erase_if(held_[x.stage], [&](const Held& each) { return each.version == x.version; });
  return brought_by;
}

void Versions::retire(const Place& at) {
  const Instruction& x = at.instruction();
  for (auto [stage, version] : weights_read(plan_, tied_versions_, x))
    if (last_reader_.at(key(Value::weights, stage, version)) == at.index) retire(stage, version);
  if (makes_version(x) || receives(x)) count(x.stage);
}

void Versions::retire(int stage, int version) {
  Held* held = find(stage, version);
  if (!held || !held->own || version >= oldest_kept(stage) || version == newest(stage)) return;
  held->own = false;
  if (!held->copy)
    std::erase_if(held_[stage], [&](const Held& each) { return each.version == version; });
}

void Versions::check_end() const {
  const int last = plan_.first + plan_.steps;
  const Place end{plan_, rank_, -1};
  for (int stage : held_stages_) {
    if (newest(stage) != last)
      refuse("end", end, "stage ", stage, " ends at version ", show(newest(stage)), ", not ", last);
    for (int version = std::max(0, oldest_kept(stage)); version <= last; ++version) {
      const std::vector<int> versions = versions_of(stage);
      if (std::find(versions.begin(), versions.end(), version) == versions.end())
        refuse("end", end, "stage ", stage, " ends with versions ", list(versions), ", without ",
               version, ", which is to be kept");
      if (plan_.sharded < 3 && !find_or_refuse(end, stage, version).whole)
        refuse("end", end, "stage ", stage, " ends with a shard of version ", version,
               "; gather it after its step");
    }
  }
}

void Versions::check_leaks() const {
  for (const auto& [stage, versions] : held_)
    for (const Held& held : versions)
      if (held.copy)
        refuse("leak", {plan_, rank_, held.brought_by}, "versions [", held.version, "] of stage ",
               stage, " left over; drop it after its last use: ", stage, "Dwv", held.version);
}

}  // namespace paragrad::parallel
