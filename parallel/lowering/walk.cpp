// The clock of a walk, and what computations wait for in it: inputs are there as soon as anybody
// has made them. Not here: messages, which take no time.
// Chapter 06.
#include "parallel/lowering/walk.h"

#include <algorithm>

#include "autograd/error.h"

namespace paragrad::parallel {

Walk::Walk(const Plan& plan)
    : plan_(plan), ranks_(plan.rows.size()), forwarded_(plan), gradients_(plan), added_(plan) {
  for (const Row& row : plan.rows)
    for (const Instruction& x : row) {
      if (!adds_gradient(x)) continue;
      ++missing_[{x.stage, plan.made_by(x.micro)}];
      if (plan.uses_tied(x.stage)) ++missing_[{plan.stages, plan.made_by(x.micro)}];
    }
}

// [snippet clock]
void Walk::walk() {
  for (;;) {
    while (start_what_can()) {  // a step can let another rank's step begin
    }
    if (ends_.empty()) break;
    now_ = ends_.top().first;
    while (!ends_.empty() && ends_.top().first == now_) {
      int rank = ends_.top().second;
      ends_.pop();
      finish(rank);
    }
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].next < plan_.rows[rank].size()) stuck();
}
// [end snippet]

bool Walk::start_what_can() {
  bool moved = false;
  for (int rank = 0; rank < plan_.ranks(); ++rank) {
    const Row& row = plan_.rows[rank];
    Rank& at = ranks_[rank];
    while (!at.busy && at.next < row.size() && can_start(rank, row[at.next])) {
      start(rank);
      moved = true;
    }
  }
  return moved;
}

bool Walk::has_turn(const Instruction& x) const {
  int place = x.micro - plan_.first_micro();
  return begins_pass(x) && x.stage == 0 && first_time(x) && plan_.stagger > 0 && place > 0 &&
         (plan_.stagger > 1 || place < plan_.per_step);
}

bool Walk::can_start(int rank, const Instruction& x) const {
  if (begins_pass(x) && x.stage > 0 && !forwarded_.has(x.stage - 1, x.micro)) return false;
  if (goes_back(x) && x.stage < plan_.stages - 1 && !gradients_.has(x.stage, x.micro)) return false;
  if (has_turn(x) && !forwarded_.has(plan_.gap - 1, x.micro - 1)) return false;
  return ready(rank, x);
}

void Walk::start(int rank) {
  Rank& at = ranks_[rank];
  const Instruction& x = plan_.rows[rank][at.next];
  starts(rank, x);
  at.busy = uses_weights(x);
  if (at.busy)
    ends_.push({now_ + 1, rank});
  else
    ++at.next;
}

void Walk::finish(int rank) {
  Rank& at = ranks_[rank];
  const Instruction& x = plan_.rows[rank][at.next++];
  at.busy = false;
  ends(rank, x);
  if (begins_pass(x)) {
    forwarded_.set(x.stage, x.micro);
    return;
  }
  if (makes_input_gradient(x) && x.stage > 0) gradients_.set(x.stage - 1, x.micro);
  if (!adds_gradient(x)) return;
  added_.set(x.stage, x.micro);
  add(x.stage, x.micro, rank);
  if (plan_.uses_tied(x.stage)) add(plan_.stages, x.micro, rank);
}

void Walk::add(int stage, int micro, int rank) {
  adds(stage, micro, rank, --missing_[{stage, plan_.made_by(micro)}] == 0);
}

bool Walk::added(int stage, int micro) const {
  if (stage < plan_.stages) return added_.has(stage, micro);
  return std::all_of(plan_.tied.begin(), plan_.tied.end(),
                     [&](int user) { return added_.has(user, micro); });
}

void Walk::stuck() const {
  std::string waiting;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    if (ranks_[rank].next < plan_.rows[rank].size())
      waiting +=
          autograd::text(" rank ", rank, " at ", print(plan_.rows[rank][ranks_[rank].next]), ";");
  throw autograd::Error("the computations of this schedule wait for each other:" + waiting);
}

}  // namespace paragrad::parallel
