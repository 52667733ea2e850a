// How long a computation waits for the other lane, and what a rank says when it gives up.
// Chapter 04.
#include <algorithm>
#include <cmath>

#include "parallel/engine/row_run.h"
#include "parallel/transports/at_work.h"
#include "parallel/transports/launch.h"

namespace paragrad::parallel {

/// What a message itself waits for is waited for by its own name.
void RowRun::wait(const Issued& message) {
  if (message.before) wait(*message.before);
  if (message.ticket) wait(*message.ticket, message.index);
}

void RowRun::wait(const Ticket& ticket, int index) { wait_for_any({&ticket}, index); }

/// `index` is what to name if none comes.
void RowRun::wait_for_any(const std::vector<const Ticket*>& tickets, int index) {
  auto start = Clock::now();
  auto outcome = lane_.wait_for_any(tickets, engine_.settings_.timeout);
  if (outcome == MessageLane::Outcome::done) return;
  double waited = std::chrono::duration<double>(Clock::now() - start).count();
  auto failure = lane_.failure();
  give_up(index, waited, failure ? report(failure->rank, failure->what) : "");
}

// [snippet give_up]
/// rank 1: waited 60 s for 1g5>1 of rank 2; rank 2 was at 2F5v1
void RowRun::give_up(int index, double waited, const std::string& why) const {
  Instruction awaited = row_[index];
  int peer = awaited_rank(index), rank = engine_.transport_.rank();
  if (awaited.op == Op::send || awaited.op == Op::recv) {
    awaited.op = awaited.op == Op::send ? Op::recv : Op::send;
    awaited.peer = rank;
  }
  double rounded = std::round(waited * 10) / 10;
  throw Error(text("rank ", rank, ": waited ", rounded, " s for ", print(awaited), " of rank ",
                   peer, "; rank ", peer, " was ", place_of(peer),
                   why.empty() ? "" : "; stopped by ", why, '\n', mark(plan_, rank, index_)));
}
// [end snippet]

/// The rank that a message depends on: its peer, or the first of the group that has not come to it.
int RowRun::awaited_rank(int index) const {
  const Instruction& x = row_[index];
  if (x.op == Op::send || x.op == Op::recv) return x.peer;
  if (x.peer < 0) return engine_.transport_.rank();  // a fold: its recv is through
  int other = x.peer;
  const auto before = std::count(row_.begin(), row_.begin() + index, x);  // gathered several times
  for (int rank : plan_.groups[x.peer]) {
    if (rank != engine_.transport_.rank()) other = rank;
    const Row& row = plan_.rows[rank];
    int here = 0;
    for (auto left = before; here < static_cast<int>(row.size()); ++here)
      if (row[here] == x && left-- == 0) break;
    int place = engine_.transport_.position(rank) - position(engine_.plans_run_, 0);
    bool passed = place > here && place <= static_cast<int>(row.size());
    if (rank != engine_.transport_.rank() && !passed) return rank;
  }
  return other;
}

std::string RowRun::place_of(int rank) const {
  int place = engine_.transport_.position(rank), begin = position(engine_.plans_run_, 0);
  if (place < 0) return "never heard of";
  const Row& row = plan_.rows[rank];
  int index = place - begin, end = static_cast<int>(row.size());
  std::string where = work_at(place);
  if (where.empty())
    where = index < 0 || index > end ? "not in this plan yet"
            : index == end           ? "at the end of its row"
                                     : "at " + print(row[index]);
  return age_of_news(engine_.transport_, rank) + where;
}

}  // namespace paragrad::parallel
