// Replay: applies the table of operations to each cell, and the rules beyond it.
// Not here: the rules of weights (versions), of gradient sums (sums) and of what is left (pairing).
// Chapter 06.
#include "parallel/verifier/replay.h"

namespace plangrad::parallel {

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
  const Row& row = plan_.rows[rank_];
  for (int index = 0; index < static_cast<int>(row.size()); ++index) {
    const Place at{plan_, rank_, index};
    note_bars(index);
    brought_by_.clear();
    execute(at);
    versions_.retire(at);
    for (int cell : brought_by_)
      if (cell >= 0 && receives(row[cell])) waits_[index].push_back(cell);
  }
  note_bars(static_cast<int>(row.size()));
}

/// Runs a cell: checks that what it needs is here, removes what it frees and adds what it makes.
void Replay::execute(const Place& at) {
  const Instruction& x = at.instruction();
  const std::vector<Name> needed = needs(plan_, tied_versions_, x);
  versions_.run(at, needed, brought_by_);
  if (begins_pass(x) && recomputes(at)) return;
  if (goes_back(x)) go_back(at);
  sums_.run(at, brought_by_);
  for (const Name& name : needed) take(at, name);
  for (const Name& name : makes(plan_, x)) make(at, name);
}

/// Records a forward. returns: whether it recomputes; it then takes no input and makes no output
bool Replay::recomputes(const Place& at) {
  const Instruction& x = at.instruction();
  auto again = passes_.find(key(Value::stash, x.stage, x.micro));
  if (again != passes_.end() && !again->second.kept) {
    check_version(at, again->second.version, "first forward");
    again->second.kept = true;
    keep(1);
    return true;
  }
  int& passed = passages_.forward(x.stage, x.micro);
  if (passed >= 0)
    refuse("once", at, "microbatch ", x.micro, " has passed stage ", x.stage, " before, on rank ",
           passed);
  passed = rank_;
  return false;
}

/// Checks that the cell reads the version that an earlier one of its microbatch has read, or in a
/// plan with drift one that is newer, but not by more.
void Replay::check_version(const Place& at, int read, const char* reader) {
  const int version = at.instruction().version, newer = version - read;
  if (newer < 0 || newer > plan_.drift)
    refuse(plan_.drift > 0 ? "drift" : "same version", at, "reads version ", version, "; its ",
           reader, " read ", read, plan_.drift > 0 ? text(", and drift is ", plan_.drift) : "");
  drift_ = std::max(drift_, newer);
}

/// Records a backward, which needs its forward's activations, once; its two parts read one version.
void Replay::go_back(const Place& at) {
  const Instruction& x = at.instruction();
  int& passed = passages_.backward(x.stage, x.micro);
  auto found = passes_.find(key(Value::stash, x.stage, x.micro));
  if (passed >= 0 && (makes_input_gradient(x) || found == passes_.end()))
    refuse("once", at, "microbatch ", x.micro, " has passed back through stage ", x.stage,
           " before, on rank ", passed);
  if (found == passes_.end())
    refuse("stash", at, "no forward has left activations of microbatch ", x.micro, " here");
  Pass& pass = found->second;
  check_version(at, pass.version, "forward");
  if (!pass.kept) refuse("stash", at, "activations were dropped; run the forward again before");
  if (!makes_input_gradient(x) && pass.input_part_at != x.version)
    refuse("input", at, "the input part of this backward, ", x.stage, "I", x.micro, "v", x.version,
           ", comes first");
  passed = rank_;
  pass.input_part_at = x.version;
}

/// Takes a value that the cell needs, except weights and sums, which versions_ and sums_ take. A
/// cell waits for a turn only if the rank receives one.
void Replay::take(const Place& at, const Name& name) {
  const Instruction& x = at.instruction();
  if (name.what == Value::stash && frees(x, name.what)) return free_stash(at, name);
  if (name.what == Value::weights) {
    if (adds_gradient(x))
      staleness_ = std::max(staleness_, plan_.made_by(x.micro) - 1 - name.number);
    return;
  }
  if (auto found = here_.find(key(name)); found != here_.end()) {
    brought_by_.push_back(found->second);
    if (frees(x, name.what)) here_.erase(found);
  } else if (name.what == Value::norm) {
    refuse("norm", at, "norm of update ", x.version, " unknown; the plan clips");
  } else if (name.what == Value::activation || name.what == Value::activation_gradient) {
    if (sends(x)) refuse("send", at, "sends what is not here: ", describe(name));
    const auto bare = [](const Row& row) { return std::ranges::all_of(row, is_compute); };
    const bool lowered = plan_.ranks() == 1 || !std::ranges::all_of(plan_.rows, bare);
    refuse("input", at, describe(name), " is not here and no recv for it is posted",
           lowered ? "" : "; the plan has no messages: plan lower adds them");
  }
}

/// Frees activations. A drop keeps the input for another forward, which evaluations never run.
void Replay::free_stash(const Place& at, const Name& name) {
  auto found = passes_.find(key(name));
  if (found == passes_.end() || !found->second.kept)
    refuse("drop", at, "nothing to drop: no activations of microbatch ", name.number,
           " are kept here");
  if (drops(at.instruction()) && found->second.input_part_at >= 0)
    refuse("drop", at, "the weight part needs what the input part has left here, and no forward ",
           "makes it again");
  found->second.kept = false;
  keep(-1);
  if (goes_back(at.instruction()) || plan_.steps == 0) passes_.erase(found);
}

void Replay::make(const Place& at, const Name& name) {
  const auto [what, stage, number] = name;
  if (what == Value::weights || what == Value::gradient_sum) return;  // versions_, sums_ add them
  if (what == Value::open_sum) return sums_.add(at, stage);
  if (what == Value::stash) {
    passes_.emplace(key(name), Pass{at.instruction().version, at.index});
    peak_passes_ = std::max(peak_passes_, static_cast<int>(passes_.size()));
    return keep(1);
  }
  const bool is_new = here_.insert_or_assign(key(name), at.index).second;
  if (what == Value::norm && !is_new)
    refuse("norm", at, "norm of update ", number, " is known already");
  if (!receives(at.instruction())) return;
  if (what == Value::turn && passages_.forward(stage, number) == rank_)
    refuse("turn", at, "the forward whose turn this is has run; receive it before");
  if (!is_new) refuse("match", at, describe(name), " is here, or on its way, already");
}

void Replay::keep(int more) {
  kept_ += more;
  peak_kept_ = std::max(peak_kept_, kept_);
}

void Replay::add_to(Facts& facts) const {
  facts.staleness = std::max(facts.staleness, staleness_);
  facts.drift = std::max(facts.drift, drift_);
  facts.live_versions.push_back(versions_.peak());
  facts.versions_in_use.push_back(versions_.peak_in_use());
  facts.peak_microbatches.push_back(peak_kept_);
  facts.peak_inputs.push_back(peak_passes_);
}

}  // namespace plangrad::parallel
