// The life of a gradient sum. Backwards add to it; it moves from rank to rank, or is reduced in a
// group; when it is finished it visits the ranks that make the step, and a step ends it.
// Not here: numbers (weight_store), weights (versions). Chapter 05.
#include "parallel/verifier/weights_and_sums.h"

#include <fmt/ranges.h>

namespace plangrad::parallel {
namespace {

/// The stages whose backwards add to the sum of `stage`.
std::vector<int> users(const Plan& plan, int stage) {
  return stage == plan.stages ? plan.tied : std::vector<int>{stage};
}

/// How many gradients a sum of the microbatches up to `micro` lacks.
int count_lacking(const Plan& plan, const Sum& sum, int stage, int micro) {
  int begin = sum.folded >= 0 ? sum.folded + 1 : (plan.made_by(micro) - 1) * plan.per_step;
  int each = stage == plan.stages ? static_cast<int>(plan.tied.size()) : 1;
  return each * (micro - begin + 1) - static_cast<int>(sum.own.size());
}

/// Gradients as a list of (stage, microbatch), which shows at most `most`.
std::string list(const std::vector<std::pair<int, int>>& gradients, std::size_t most = 8) {
  std::vector<std::string> shown;
  for (const auto& [stage, micro] : gradients)
    if (shown.size() < most) shown.push_back(text("(", stage, ", ", micro, ")"));
  if (gradients.size() > most) shown.push_back(text("... ", gradients.size(), " in all"));
  return fmt::format("[{}]", fmt::join(shown, ", "));
}

std::string describe(const Sum& sum, std::size_t most = 8) {
  std::string out = list(sum.own, most);
  if (sum.folded >= 0) out += text(" and all up to ", sum.folded);
  for (int micro : {sum.partial.micro, sum.whole.micro})
    if (micro >= 0) out += text("; beside it is one up to ", micro);
  return out;
}

}  // namespace

std::string lacking(const Plan& plan, const std::vector<Sum>& sums, int stage, int version) {
  std::set<std::pair<int, int>> there;
  int folded = -1;
  for (const Sum& sum : sums) {
    there.insert(sum.own.begin(), sum.own.end());
    folded = std::max(folded, sum.folded);
  }
  std::vector<std::pair<int, int>> missing;
  int begin = std::max(folded + 1, (version - 1) * plan.per_step);
  for (int user : users(plan, stage))
    for (int micro = begin; micro < version * plan.per_step; ++micro)
      if (!there.contains({user, micro})) missing.push_back({user, micro});
  return missing.empty() ? "" : list(missing);
}

Sums::Sums(const Plan& plan, int rank) : plan_(plan), rank_(rank) {
  for (const Instruction& x : plan.rows[rank])
    if (makes_version(x)) stepped_.insert(x.stage);
}

/// Whether the rank's own sum is the one that this microbatch names.
bool Sums::holds(const Sum& sum, int stage, int micro) const {
  if (sum.finished) return plan_.ends_step(micro);
  auto beyond = [&](const auto& gradient) { return gradient.second > micro; };
  return count_lacking(plan_, sum, stage, micro) == 0 &&
         std::none_of(sum.own.begin(), sum.own.end(), beyond);
}

/// Ends the rank's own sum, or the one that arrived, and erases the entry if it is then empty.
/// returns: the cell that received the sum; -1 for an own one
int Sums::take(int stage, int version, bool own, Sum::Arrived& arrived) {
  const auto found = sums_.find({stage, version});
  const int by = own ? -1 : std::exchange(arrived, {}).by;
  if (own) forget_own(found->second);
  if (found->second == Sum()) sums_.erase(found);
  return by;
}

void Sums::run(const Place& at, std::vector<int>& brought_by) {
  const Instruction& x = at.instruction();
  if (makes_version(x)) return brought_by.push_back(step(at));
  if (x.what == Value::norm) return count(at, brought_by);
  if (x.what != Value::gradient_sum) return;
  if (receives(x)) return receive(at);
  if (drops(x)) return drop(at);
  if (meets(x)) return reduce(at);
  brought_by.push_back(sends(x) ? send(at) : fold(at));
}

void Sums::add(const Place& at, int stage) {
  const Instruction& x = at.instruction();
  Sum& sum = sums_[{stage, plan_.made_by(x.micro)}];
  if (sum.finished)
    refuse("sum", at, "adds to the sum of stage ", stage, " after its reduction; reduce it later");
  auto last = std::find_if(sum.own.rbegin(), sum.own.rend(),
                           [&](const auto& gradient) { return gradient.first == x.stage; });
  if (sum.folded > x.micro || (last != sum.own.rend() && last->second > x.micro))
    refuse("sum order", at, "adds microbatch ", x.micro, " after a later one");
  sum.own.push_back({x.stage, x.micro});
}

void Sums::receive(const Place& at) {
  const Instruction& x = at.instruction();
  Sum& sum = named(x);
  Sum::Arrived& arrived = this->arrived(sum, x.micro);
  if (arrived.micro >= 0 || holds(sum, x.stage, x.micro))
    refuse("match", at, "a sum of stage ", x.stage, " up to microbatch ",
           std::max(arrived.micro, x.micro), " is here, or on its way, already");
  arrived = {x.micro, at.index};
}

int Sums::send(const Place& at) {
  const Instruction& x = at.instruction();
  const int version = plan_.made_by(x.micro);
  Sum& sum = named(x);
  Sum::Arrived& arrived = this->arrived(sum, x.micro);
  const bool own = holds(sum, x.stage, x.micro);
  if (!own && sum.own.empty() && arrived.micro < 0)
    refuse("send", at, "sends what is not here: ", parallel::describe(value_of(x)));
  if (!own && arrived.micro != x.micro)
    refuse("sum", at, "the name says up to ", x.micro, ", the sum holds ", describe(sum));
  if (plan_.ends_step(x.micro) && stepped_.contains(x.stage))
    return own ? -1 : arrived.by;  // it is copied, and stays
  return take(x.stage, version, own, arrived);
}

int Sums::fold(const Place& at) {
  const Instruction& x = at.instruction();
  Sum& sum = named(x);
  const auto [micro, by] = std::exchange(sum.partial, {});
  if (micro < 0)
    refuse("input", at, "no partial sum of stage ", x.stage,
           " is here and no recv for it is posted");
  if (sum.own.empty()) refuse("sum", at, "this rank has no gradients of its own to add");
  for (const auto& own : sum.own)
    if (own.second <= micro || sum.folded >= 0)
      refuse("sum order", at, "adds microbatch ", micro,
             " after a later one; own: ", describe(sum));
  sum.folded = micro;
  if (!holds(sum, x.stage, x.micro))
    refuse("sum", at, "the name says up to ", x.micro, ", the sum holds ", describe(sum));
  return by;
}

void Sums::reduce(const Place& at) {
  const Instruction& x = at.instruction();
  Sum& sum = sums_[{x.stage, x.version}];
  if (sum.own.empty() || sum.finished)
    refuse("sum", at, "this rank has no open sum of stage ", x.stage, " for version ", x.version,
           sum.finished ? ": it is reduced already"
                        : ": every holder of a stage needs a microbatch in each update");
  brought_[at.index] = sum;
  forget_own(sum);
  sum.finished = true;
}

void Sums::drop(const Place& at) {
  const Instruction& x = at.instruction();
  auto found = sums_.find({x.stage, x.version});
  if (found == sums_.end() || !found->second.finished || found->second.shard_only)
    refuse("drop", at, "nothing to drop: the sum of stage ", x.stage, " for version ", x.version,
           " is not here, or not reduced");
  found->second.shard_only = true;
}

int Sums::step(const Place& at) {
  const Instruction& x = at.instruction();
  Sum& sum = sums_[{x.stage, x.version}];
  const bool own = holds(sum, x.stage, plan_.last_micro_of(x.version));
  if (!own && sum.whole.micro < 0)
    refuse("sum", at, "the gradient lacks (stage, microbatch) ",
           lacking(plan_, {sum}, x.stage, x.version),
           sum.partial.micro >= 0 ? "; the sum that arrived is not folded in" : "");
  if (plan_.sharded >= 2 && sum.finished && !sum.shard_only)
    refuse("leak", at, "the unreduced sum is left over; ", x.stage, "Dpv", x.version,
           " keeps this rank's shard of it");
  return take(x.stage, x.version, own, sum.whole);
}

void Sums::count(const Place& at, std::vector<int>& brought_by) {
  const int version = at.instruction().version;
  std::vector<int>& stages = counted_[at.index];
  for (const auto& [name, sum] : sums_) {
    const int stage = name.first;
    if (name.second != version || (!plan_.home.empty() && plan_.home[stage] != rank_)) continue;
    const bool own = holds(sum, stage, plan_.last_micro_of(version));
    if (!own && (plan_.home.empty() || sum.whole.micro < 0)) continue;
    if (!own) brought_by.push_back(sum.whole.by);
    stages.push_back(stage);
  }
}

void Sums::add_state(int back, std::set<std::string>& lines) const {
  const int micros = back * plan_.period * plan_.per_step;
  auto earlier = [&](int& micro) {
    if (micro >= 0) micro -= micros;
  };
  for (auto [name, sum] : sums_) {
    for (auto& [stage, micro] : sum.own) earlier(micro);
    for (int* micro : {&sum.folded, &sum.partial.micro, &sum.whole.micro}) earlier(*micro);
    std::ranges::sort(sum.own);
    if (sum != Sum())
      lines.insert(text("the gradient sum of stage ", name.first, " for version ",
                        name.second - back * plan_.period, ", which holds ",
                        describe(sum, sum.own.size()), sum.finished ? ", reduced" : "",
                        sum.shard_only ? ", its shard only" : ""));
  }
}

void Sums::check_leaks() const {
  if (sums_.empty()) return;
  const auto& [name, sum] = *sums_.begin();
  refuse("leak", {plan_, rank_, std::max(sum.partial.by, sum.whole.by)},
         "the gradient sum of stage ", name.first, " for version ", name.second,
         " is left over; it holds ", describe(sum), "; no step or send takes it");
}

}  // namespace plangrad::parallel
