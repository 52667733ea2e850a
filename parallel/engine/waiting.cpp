// A rank that gives up names the message, the rank that it depends on, and where that rank was.
// Chapter 04.
#include "parallel/engine/waiting.h"

#include <algorithm>
#include <cmath>

#include "parallel/transports/launch.h"

namespace plangrad::parallel {

using autograd::Error;
using autograd::text;

void Waiting::reach(int cell) {
  cell_ = cell;
  tell(Work::none);
}

void Waiting::compute() { tell(Work::computing); }

void Waiting::tell(Work work) const {
  transport_.publish({.cell = cell_, .plan = static_cast<std::int16_t>(run_.number), .work = work});
}

/// Whether one of the tickets is done before the deadline.
bool Waiting::wait_patiently(const std::vector<const Ticket*>& tickets) const {
  if (lane_.wait_for_any(tickets, 0)) return true;
  tell(Work::none);
  Deadline deadline(run_.engine.settings().timeout);
  while (deadline.left() > 0 && !lane_.failure()) {
    if (lane_.wait_for_any(tickets, deadline.longest_wait())) return true;
    deadline.restart_if_progress(transport_);
  }
  return lane_.wait_for_any(tickets, 0);
}

void Waiting::wait(const Issued& message) const {
  if (message.before) wait(*message.before);
  if (message.ticket) wait_for_any({message.ticket.get()}, message.cell);
}

void Waiting::wait_for_any(const std::vector<const Ticket*>& tickets, int cell) const {
  const auto start = Clock::now();
  if (wait_patiently(tickets)) return;
  Instruction awaited = run_.at(cell);
  const int peer = awaited_rank(cell);
  if (travels(awaited)) {  // as the other end writes it
    awaited.op = sends(awaited) ? Op::recv : Op::send;
    awaited.peer = run_.rank;
  }
  give_up(start, print(awaited), peer);
}

void Waiting::wait_for_word(const Ticket& ticket, const std::string& what, int peer) const {
  const auto start = Clock::now();
  if (!wait_patiently({&ticket})) give_up(start, what, peer);
}

// [snippet give_up]
/// Throws `rank 1: waited 60 s for 1g5>1 of rank 2; rank 2 was at 2F5v1`.
void Waiting::give_up(Clock::time_point start, const std::string& awaited, int peer) const {
  const double waited = std::chrono::duration<double>(Clock::now() - start).count();
  const auto failure = lane_.failure();
  throw Error(text("rank ", run_.rank, ": waited ", std::round(waited * 10) / 10, " s for ",
                   awaited, " of rank ", peer, "; rank ", peer, " was ", place_of(peer),
                   failure ? "; stopped by " + report(failure->rank, failure->what) : "", '\n',
                   run_.mark(cell_)));
}
// [end snippet]

/// The rank that a message depends on: its peer, or the first of the group that has not reached it.
int Waiting::awaited_rank(int cell) const {
  const Instruction x = run_.at(cell);
  if (travels(x)) return x.peer;
  if (!meets(x)) return run_.rank;  // a fold, whose recv is done
  int other = x.peer;
  const std::vector<int> own = run_.cells_with(run_.rank, x);  // gathers can be equal
  const auto number = static_cast<std::size_t>(std::ranges::find(own, cell) - own.begin());
  for (int rank : run_.plan.groups[x.peer]) {
    if (rank == run_.rank) continue;
    other = rank;
    const std::vector<int> cells = run_.cells_with(rank, x);
    const int there = number < cells.size() ? cells[number] : run_.cells_of(rank);
    const Position place = transport_.position(rank);
    if (!is_in_plan(place, rank) || place.cell <= there) return rank;
  }
  return other;
}

bool Waiting::is_in_plan(const Position& place, int rank) const {
  return place.plan == run_.number && place.cell <= run_.cells_of(rank);
}

std::string Waiting::place_of(int rank) const {
  const Position place = transport_.position(rank);
  if (!place.is_known()) return "never heard of";
  const std::string in_plan = !is_in_plan(place, rank) ? "not in this plan yet"
                              : place.cell == run_.cells_of(rank)
                                  ? "at the end of its row"
                                  : "at " + print(run_.at(rank, place.cell));
  return parallel::place_of(transport_, rank, in_plan);
}

}  // namespace plangrad::parallel
