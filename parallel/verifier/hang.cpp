// Finds hangs by replaying positions only: how far each rank gets, given what the others have done.
// Not here: what is computed (replay). Chapter 06.
#include <deque>
#include <numeric>

#include "parallel/verifier/replay.h"

namespace plangrad::parallel {
namespace {

class Walk {
 public:
  Walk(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows, int capacity)
      : plan_(plan),
        pairing_(pairing),
        rows_(rows),
        capacity_(capacity),
        at_(plan.ranks()),
        ends_(plan.ranks()),
        sent_(pairing.wires.size()),
        posted_(pairing.wires.size()),
        joined_(pairing.meetings.size()),
        joining_(plan.ranks()) {}

  /// Whether all ranks reach their bars, if the plan has any, and then the ends of their rows.
  bool run() { return run_to(Part::head) && run_to(Part::body) && run_to(Part::tail); }

  /// Whether all ranks reach the end of a part. One order of events that does so proves all: what a
  /// cell has once been able to do, it stays able to do until it does it.
  bool run_to(Part part) {
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      ends_[rank] = cells_of(plan_, rank, part).second;
    std::vector<int> ranks(plan_.ranks());
    std::iota(ranks.begin(), ranks.end(), 0);
    awake_.assign(ranks.begin(), ranks.end());
    for (; !awake_.empty(); awake_.pop_front()) {
      const int rank = awake_.front();
      while (!finished(rank) && !missing(rank) && pass(rank)) {
      }
    }
    return std::ranges::all_of(ranks, [this](int rank) { return finished(rank); });
  }

  /// Explains why run() stopped early. throws: PlanError that names ranks waiting in a circle
  [[noreturn]] void explain() const {
    int rank = 0;
    while (finished(rank)) ++rank;
    // Each awaited rank waits as well, so one hop for each rank leads into a circle.
    for (int i = 0; i < plan_.ranks(); ++i) {
      const auto [other, index] = awaited(rank);
      if (finished(other))
        refuse("hang", {plan_, rank, at_[rank]}, "waits for rank ", other, " to reach ",
               show(other, index),
               ", which stands behind its bar: the rows do not all reach their ",
               "bars without what comes after; move the bars");
      rank = other;
    }
    const int first = rank;
    std::string chain;
    do {
      const auto [other, index] = awaited(rank);
      if (!chain.empty()) chain += text("; rank ", rank, " at ", show(rank, at_[rank]), " ");
      chain += text("waits for rank ", other, " to reach ", show(other, index));
      rank = other;
    } while (rank != first);
    refuse("hang", {plan_, first, at_[first]}, chain);
  }

 private:
  std::string show(int rank, int index) const { return print(plan_.rows[rank][index]); }
  bool finished(int rank) const { return at_[rank] == ends_[rank]; }
  const Pairing::End& end(int rank) const { return pairing_.ends[rank][at_[rank]]; }

  /// The first message that the rank's cell needs and that is not sent yet; null if all are sent.
  const Pairing::End* missing(int rank) const {
    for (int recv : rows_[rank].waits()[at_[rank]]) {
      const Pairing::End& message = pairing_.ends[rank][recv];
      if (sent_[message.wire] <= message.number) return &message;
    }
    return nullptr;
  }

  /// Passes the rank's cell, if it can, and wakes the ranks that may have waited for it.
  bool pass(int rank) {
    const Pairing::End& here = end(rank);
    const Instruction& x = plan_.rows[rank][at_[rank]];
    if (sends(x)) {
      // Weights are sent without a copy, so their send must complete before they are freed.
      const bool stays = x.what == Value::weights;
      if (here.number >= posted_[here.wire] + (stays ? 0 : capacity_)) return false;
      ++sent_[here.wire];
      awake_.push_back(pairing_.wires[here.wire].to);
    } else if (receives(x)) {
      ++posted_[here.wire];
      awake_.push_back(pairing_.wires[here.wire].from);
    } else if (here.meeting >= 0) {
      return meet(rank, here.meeting);
    }
    ++at_[rank];
    return true;
  }

  /// Joins a meeting; the last member to join moves all of them to their next cells.
  bool meet(int rank, int number) {
    const std::vector<int>& members = plan_.groups[pairing_.meetings[number].group];
    if (!joining_[rank]) ++joined_[number];
    joining_[rank] = true;
    if (joined_[number] < static_cast<int>(members.size())) return false;
    for (int member : members) {
      joining_[member] = false;
      ++at_[member];
      awake_.push_back(member);
    }
    return true;
  }

  /// The rank and the cell of its row that a blocked rank waits for.
  std::pair<int, int> awaited(int rank) const {
    if (const Pairing::End* message = missing(rank)) {
      const Wire& wire = pairing_.wires[message->wire];
      return {wire.from, wire.sends[message->number]};
    }
    const Pairing::End& here = end(rank);
    if (here.meeting < 0) {
      const Wire& wire = pairing_.wires[here.wire];
      return {wire.to, wire.recvs[here.number]};
    }
    const Meeting& meeting = pairing_.meetings[here.meeting];
    const std::vector<int>& members = plan_.groups[meeting.group];
    std::size_t i = 0;
    while (joining_[members[i]] && at_[members[i]] == meeting.cells[i]) ++i;
    return {members[i], meeting.cells[i]};
  }

  const Plan& plan_;
  const Pairing& pairing_;
  const std::vector<Replay>& rows_;
  const int capacity_;
  std::vector<int> at_, ends_;      // per rank: its cell, and where it stops
  std::vector<int> sent_, posted_;  // per wire: how many sends, and recvs, were passed
  std::vector<int> joined_;         // per meeting: how many members have joined
  std::vector<bool> joining_;       // per rank: whether it has joined the meeting at its cell
  std::deque<int> awake_;           // ranks that may be able to continue
};

}  // namespace

int smallest_capacity(const Plan& plan, const Pairing& pairing, const std::vector<Replay>& rows) {
  auto runs = [&](int capacity) { return Walk(plan, pairing, rows, capacity).run(); };
  if (runs(0)) return 0;
  int too_small = 0, enough = 0;
  for (const Wire& wire : pairing.wires)
    enough = std::max(enough, static_cast<int>(wire.sends.size()));
  Walk unlimited(plan, pairing, rows, enough);
  if (!unlimited.run()) unlimited.explain();
  while (enough - too_small > 1) {
    const int middle = (too_small + enough) / 2;
    (runs(middle) ? enough : too_small) = middle;
  }
  return enough;
}

}  // namespace plangrad::parallel
