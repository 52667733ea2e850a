// The rules of forward, backward and messages, as plan.h's table has them.
// Not here: the rules of weights (versions) and of gradient sums (sums).
// Chapter 06.
#include "parallel/verifier/replay.h"

#include <algorithm>

namespace paragrad::parallel {

Replay::Replay(const Plan& plan, int rank, Passages& passages, const std::set<int>& held,
               const std::vector<int>& tied_versions)
    : plan_(plan),
      rank_(rank),
      passages_(passages),
      tied_versions_(tied_versions),
      versions_(plan, rank, held, tied_versions),
      sums_(plan, rank),
      waits_(plan.rows[rank].size()) {}

void Replay::run() {
  for (int index = 0; index < static_cast<int>(waits_.size()); ++index) {
    const Place at{plan_, rank_, index};
    execute(at);
    versions_.retire(at);
  }
}

void Replay::execute(const Place& at) {
  switch (at.instruction().op) {
    case Op::forward: return forward(at);
    case Op::backward: return backward(at);
    case Op::send: return send(at);
    case Op::recv: return receive(at);
    case Op::reduce: reduced_[at.index] = sums_.reduce(at); return;
    case Op::fold: return wait(at, sums_.fold(at));
    case Op::norm: return norm(at);
    case Op::gather: return versions_.gather(at);
    case Op::drop: return drop(at);
    case Op::step: return step(at);
  }
}

void Replay::forward(const Place& at) {
  const Instruction& x = at.instruction();
  read_weights(at);
  if (auto turn = here_.find(key(Value::turn, x.stage, x.micro)); turn != here_.end()) {
    wait(at, turn->second);
    here_.erase(turn);
  }
  const Key name = key(Value::none, x.stage, x.micro);
  if (auto again = passes_.find(name); again != passes_.end() && !again->second.kept) {
    if (again->second.version != x.version)
      refuse("same version", at, "reads version ", x.version, "; its first forward read ",
             again->second.version);
    again->second.kept = true;
    return keep(1);
  }
  int& passed = passages_.forward(x.stage, x.micro);
  if (passed >= 0)
    refuse("once", at, "microbatch ", x.micro, " has passed stage ", x.stage, " before, on rank ",
           passed);
  if (x.stage > 0) take(at, Value::activation, x.stage - 1);
  passed = rank_;
  passes_.emplace(name, Pass{x.version, at.index});
  peak_passes_ = std::max(peak_passes_, static_cast<int>(passes_.size()));
  keep(1);
  if (x.stage < plan_.stages - 1) make(at, Value::activation, x.stage);
}

void Replay::backward(const Place& at) {
  const Instruction& x = at.instruction();
  read_weights(at);
  Pass& pass = pass_back(at);
  if (x.what != Value::weight_part) {
    if (x.stage < plan_.stages - 1) take(at, Value::activation_gradient, x.stage);
    passages_.backward(x.stage, x.micro) = rank_;
    pass.input_part_done = true;
    if (x.stage > 0) make(at, Value::activation_gradient, x.stage - 1);
  }
  if (x.what == Value::input_part) return;
  sums_.add(at, x.stage);
  staleness_ = std::max(staleness_, plan_.made_by(x.micro) - 1 - x.version);
  if (plan_.uses_tied(x.stage)) {
    sums_.add(at, plan_.stages);
    int version = tied_versions_[x.micro - plan_.first_micro()];
    staleness_ = std::max(staleness_, plan_.made_by(x.micro) - 1 - version);
  }
  keep(-1);
  passes_.erase(key(Value::none, x.stage, x.micro));
}

/// What a backward goes back through.
Replay::Pass& Replay::pass_back(const Place& at) {
  const Instruction& x = at.instruction();
  const int passed = passages_.backward(x.stage, x.micro);
  const bool is_first = x.what != Value::weight_part;
  auto found = passes_.find(key(Value::none, x.stage, x.micro));
  if (passed >= 0 && (is_first || found == passes_.end()))
    refuse("once", at, "microbatch ", x.micro, " has passed back through stage ", x.stage,
           " before, on rank ", passed);
  if (found == passes_.end())
    refuse("stash", at, "no forward has left activations of microbatch ", x.micro, " here");
  if (found->second.version != x.version)
    refuse("same version", at, "reads version ", x.version, "; its forward read ",
           found->second.version);
  if (!found->second.kept)
    refuse("stash", at, "activations were dropped; run the forward again before");
  if (!is_first && !found->second.input_part_done)
    refuse("input", at, "the input part of this backward, ", x.stage, "I", x.micro, "v", x.version,
           ", comes first");
  return found->second;
}

void Replay::send(const Place& at) {
  const Instruction& x = at.instruction();
  if (x.what == Value::weights) return read_weights(at);
  if (x.what == Value::gradient_sum) return wait(at, sums_.send(at));
  if (x.what == Value::turn) return;  // it is empty: anyone can make one
  auto found = here_.find(key(x.what, x.stage, x.micro));
  if (found == here_.end()) refuse("send", at, "sends what is not here: ", describe(value_of(x)));
  wait(at, found->second);
  here_.erase(found);
}

void Replay::receive(const Place& at) {
  const Instruction& x = at.instruction();
  if (x.what == Value::weights) return versions_.receive(at);
  if (x.what == Value::gradient_sum) return sums_.receive(at);
  if (x.what == Value::turn && passages_.forward(x.stage, x.micro) == rank_)
    refuse("turn", at, "the forward whose turn this is has run; receive it before");
  if (here_.contains(key(x.what, x.stage, x.micro)))
    refuse("match", at, describe(value_of(x)), " is here, or on its way, already");
  make(at, x.what, x.stage);
}

void Replay::norm(const Place& at) {
  const Instruction& x = at.instruction();
  if (!norms_.insert(x.version).second)
    refuse("norm", at, "norm of step ", x.version, " is known already");
  counted_[at.index] = sums_.counted(x.version, waits_[at.index]);
}

void Replay::drop(const Place& at) {
  const Instruction& x = at.instruction();
  if (x.what == Value::weights) return wait(at, versions_.drop(at));
  if (x.what == Value::gradient_sum) return sums_.drop(at);
  auto found = passes_.find(key(Value::none, x.stage, x.micro));
  if (found == passes_.end() || !found->second.kept)
    refuse("drop", at, "nothing to drop: no activations of microbatch ", x.micro, " are kept here");
  found->second.kept = false;
  keep(-1);
  if (plan_.steps == 0) passes_.erase(found);  // an evaluation does not come back to it
}

void Replay::step(const Place& at) {
  const Instruction& x = at.instruction();
  versions_.step(at);
  wait(at, sums_.step(at));
  if (plan_.clip && !norms_.contains(x.version))
    refuse("norm", at, "norm of step ", x.version, " unknown; the plan clips");
}

void Replay::read_weights(const Place& at) {
  const Instruction& x = at.instruction();
  if (plan_.steps == 0 && x.version != plan_.first)
    refuse("version", at, "reads version ", x.version, "; this evaluation is of version ",
           plan_.first);
  for (int cell : versions_.read(at)) wait(at, cell);
}

/// An input is gone with the forward or backward that takes it: the stash has what comes later.
void Replay::take(const Place& at, Value what, int stage) {
  const int micro = at.instruction().micro;
  auto found = here_.find(key(what, stage, micro));
  if (found == here_.end())
    refuse("input", at, describe({what, stage, micro}),
           " is not here and no recv for it is posted");
  wait(at, found->second);
  here_.erase(found);
}

void Replay::make(const Place& at, Value what, int stage) {
  here_[key(what, stage, at.instruction().micro)] = at.index;
}

void Replay::wait(const Place& at, int cell) {
  if (cell >= 0 && receives(plan_.rows[rank_][cell])) waits_[at.index].push_back(cell);
}

void Replay::keep(int more) {
  kept_ += more;
  peak_kept_ = std::max(peak_kept_, kept_);
}

void Replay::check_leaks() const {
  versions_.check_leaks();
  sums_.check_leaks();
  int pass = -1, value = -1;  // the last ones
  for (const auto& [name, left] : passes_) pass = std::max(pass, left.forward_at);
  for (const auto& [name, cell] : here_) value = std::max(value, cell);
  if (pass >= 0)
    refuse("leak", {plan_, rank_, pass}, "its activations are left over: ",
           plan_.steps == 0 ? "no drop frees them" : "no backward frees them");
  if (value >= 0)
    refuse("leak", {plan_, rank_, value}, "what it brings is left over; nothing here takes it");
}

}  // namespace paragrad::parallel
