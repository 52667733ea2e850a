// The life of a version on a rank. It begins at the start, with a step, or with a message. It ends
// after its last reader once it has a successor or, if a message brought it, with a drop. In a plan
// with drift it ends with the step to its successor, whoever may still want to read it.
// Not here: gradient sums (sums). Chapter 07.
#include "parallel/verifier/weights_and_sums.h"

namespace plangrad::parallel {
static std::string show(int version) { return version < 0 ? "none" : std::to_string(version); }

Versions::Versions(const Plan& plan, int rank, const std::set<int>& held,
                   const std::vector<int>& tied_versions)
    : plan_(plan), rank_(rank), held_stages_(held), lifetimes_(plan, rank, tied_versions) {
  for (int stage : held) {
    const int oldest = std::max(0, lifetimes_.oldest_kept(stage) - plan.steps);
    for (int version = oldest; version <= plan.first; ++version)
      held_[{stage, version}] = {.own = true, .whole = plan.sharded < 3};
    count(stage);
    for (int version = oldest; version < plan.first; ++version)
      if (!lifetimes_.needed_after(stage, version, -1)) retire(stage, version);
  }
}

std::vector<int> Versions::versions_of(int stage) const {
  std::vector<int> versions;
  for (const auto& [name, held] : of(stage)) versions.push_back(name.second);
  return versions;
}

int Versions::newest(int stage) const {
  int newest = -1;
  for (const auto& [name, held] : of(stage))
    if (held.own) newest = name.second;
  return newest;
}

Versions::Held& Versions::find_or_refuse(const Place& at, int stage, int version) {
  auto found = held_.find({stage, version});
  if (found == held_.end())
    refuse("version", at, "reads version ", version, " of stage ", stage,
           "; there: ", list(versions_of(stage)));
  return found->second;
}

void Versions::count(int stage) {
  peak_ = std::max(peak_, static_cast<int>(std::ranges::distance(of(stage))));
}

void Versions::run(const Place& at, const std::vector<Name>& needed, std::vector<int>& brought_by) {
  const Instruction& x = at.instruction();
  if (makes_version(x)) return step(at);
  if (uses_weights(x) && plan_.steps == 0 && x.version != plan_.first)
    refuse("version", at, "reads version ", x.version, "; this evaluation is of version ",
           plan_.first);
  if (uses_weights(x) || (sends(x) && x.what == Value::weights)) {
    for (const Name& name : needed)
      if (name.what == Value::weights) read(at, name.stage, name.number, brought_by);
    return;
  }
  if (x.what != Value::weights) return;
  if (receives(x)) return receive(at);
  drops(x) ? drop(at, brought_by) : gather(at);
}

void Versions::read(const Place& at, int stage, int version, std::vector<int>& brought_by) {
  Held& held = find_or_refuse(at, stage, version);
  if (!held.whole)
    refuse("gathered", at, "only this rank's shard of version ", version, " of stage ", stage,
           " is there; gather it before");
  brought_by.push_back(held.brought_by);
  held.begun = true;
  const auto in_use = std::ranges::count_if(of(stage), [&](const auto& entry) {
    return entry.second.begun && lifetimes_.last_reader(stage, entry.first.second) >= at.index;
  });
  peak_in_use_ = std::max(peak_in_use_, static_cast<int>(in_use));
}

void Versions::receive(const Place& at) {
  const Instruction& x = at.instruction();
  const Held held{.own = false, .whole = true, .copy = true, .brought_by = at.index, .begun = true};
  if (!held_.try_emplace({x.stage, x.version}, held).second)
    refuse("match", at, describe(value_of(x)), " is here, or on its way, already");
}

void Versions::gather(const Place& at) {
  const Instruction& x = at.instruction();
  Held& held = find_or_refuse(at, x.stage, x.version);
  if (held.whole)
    refuse("gathered", at, "the whole of version ", x.version, " of stage ", x.stage,
           " is here already");
  held.whole = true;
  held.copy = plan_.sharded == 3;  // at levels 1 and 2, whole weights live as long as their version
  held.brought_by = at.index;
}

void Versions::step(const Place& at) {
  const Instruction& x = at.instruction();
  if (newest(x.stage) != x.version - 1)
    refuse("order", at, "makes version ", x.version, " of stage ", x.stage, ", newest is ",
           show(newest(x.stage)), "; steps follow each other");
  if (plan_.drift > 0) held_.erase({x.stage, x.version - 1});  // overwritten
  held_[{x.stage, x.version}] = {.own = true, .whole = plan_.sharded == 0, .begun = true};
}

void Versions::drop(const Place& at, std::vector<int>& brought_by) {
  const Instruction& x = at.instruction();
  auto found = held_.find({x.stage, x.version});
  const bool is_here = found != held_.end();
  if (!is_here || !found->second.whole)
    refuse("drop", at, "nothing to drop; there: versions ", list(versions_of(x.stage)),
           is_here ? "; this one is only a shard, which stays" : "");
  Held& held = found->second;
  brought_by.push_back(held.brought_by);
  held.whole = held.copy = false;
  if (plan_.sharded == 0 || !held.own) held_.erase(found);
}

void Versions::retire(const Place& at) {
  const Instruction& x = at.instruction();
  for (auto [stage, version] : lifetimes_.ending_at(at.index)) retire(stage, version);
  if (makes_version(x) || receives(x)) count(x.stage);
}

void Versions::retire(int stage, int version) {
  auto found = held_.find({stage, version});
  if (found == held_.end() || !found->second.own || version == newest(stage)) return;
  found->second.own = false;
  if (!found->second.copy) held_.erase(found);
}

void Versions::check_end() const {
  const int last = plan_.first + plan_.steps;
  const Place end{plan_, rank_, -1};
  for (int stage : held_stages_) {
    if (newest(stage) != last)
      refuse("end", end, "stage ", stage, " ends at version ", show(newest(stage)), ", not ", last);
    for (int version = std::max(0, lifetimes_.oldest_kept(stage)); version <= last; ++version) {
      const auto found = held_.find({stage, version});
      if (found == held_.end())
        refuse("end", end, "stage ", stage, " ends with versions ", list(versions_of(stage)),
               ", without ", version, ", which the plan keeps");
      if (plan_.sharded < 3 && !found->second.whole)
        refuse("end", end, "stage ", stage, " ends with a shard of version ", version,
               "; gather it after its step");
    }
  }
}

void Versions::add_state(int back, std::set<std::string>& lines) const {
  for (const auto& [name, held] : held_)
    lines.insert(text("version ", name.second - back * plan_.period, " of stage ", name.first,
                      held.whole ? "" : ", a shard", held.copy ? ", a copy" : "",
                      held.own ? "" : ", not its own"));
}

bool Versions::lacks(int version) const {
  return std::ranges::any_of(held_stages_, [&](int stage) { return newest(stage) < version; });
}

void Versions::check_leaks() const {
  for (const auto& [name, held] : held_)
    if (held.copy)
      refuse("leak", {plan_, rank_, held.brought_by}, "versions [", name.second, "] of stage ",
             name.first, " left over; drop it after its last use: ", name.first, "Dwv",
             name.second);
}

}  // namespace plangrad::parallel
