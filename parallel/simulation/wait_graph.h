// WaitGraph: which instruction of a timeline waited for which, so that one can ask what a rank did
// not have while it was idle. Not here: sums over the answers (breakdown.h).
// Chapter 06.
#pragma once

#include <vector>

#include "parallel/plan/timeline.h"
#include "parallel/simulation/events.h"

namespace plangrad::parallel {

/// A timeline, measured or simulated, laid over the cells of its plan. Cells are counted over all
/// rows, as in Events. A measured timeline lacks drops, which take no time, and the norms of groups
/// of one, which need no message: what such a cell waits for counts as awaited by the cells behind
/// it, up to the rank's next computation. Drops of a simulated timeline are taken in the same way.
class WaitGraph {
 public:
  static constexpr int none = -1;

  /// `timeline` must outlive it. The rows of a message-driven plan are taken in the order in which
  /// they ran: a simulated timeline has it; plan_as_it_ran() makes a plan of it for a measured one.
  /// throws: Error if the timeline lacks an instruction of the plan, or has another
  WaitGraph(const Plan& plan, const Timeline& timeline);
  WaitGraph(const WaitGraph&) = delete;  // events point into the plan
  WaitGraph& operator=(const WaitGraph&) = delete;

  int ranks() const { return plan_.ranks(); }
  /// The cells of a rank's computations in the order in which they ran.
  const std::vector<int>& computations(int rank) const { return computations_.at(rank); }
  /// The cell of a rank that brings it a value from others (a receive, reduction, norm or gather)
  /// and ends last; none: nothing comes from others.
  int last_arrival(int rank) const;
  /// The cell that ends last of all; among equals the last one of the first rank's row; none: the
  /// timeline is empty.
  int last() const;

  const Instruction& instruction(int cell) const { return *events_.cells.at(cell); }
  int rank(int cell) const { return events_.rank_of(cell); }
  /// The record of a cell that one of these functions returned, by its place in the timeline.
  int record(int cell) const { return record_.at(cell); }
  /// The seconds at which a cell's part of an event ends at its rank.
  double end(int cell) const { return timeline_.records.at(record_.at(cell)).end; }
  /// The seconds at which a computation begins. A message begins when all its ends are issued, have
  /// what they need, and the messages before it in their queues have ended.
  double begin(int cell) const;
  /// The cell that a cell waited for last: the computation before it in its row, a message that
  /// brought an input, or the message before it in its queue. For a message, what any of its ends
  /// waited for. Among equals a computation; none: nothing stands before it.
  int cause(int cell) const;

 private:
  void match_records();
  void add_row(int rank, const std::vector<int>& tied_versions);
  void add_queues();

  const Plan plan_;
  const Timeline& timeline_;
  const Events events_;
  std::vector<std::vector<int>> ends_;          // by event: its cells
  std::vector<std::vector<int>> awaited_;       // by cell: cells of the same rank
  std::vector<int> record_;                     // by cell; none: a drop, or a norm of one
  std::vector<std::vector<int>> computations_;  // by rank
};

}  // namespace plangrad::parallel
