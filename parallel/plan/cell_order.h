// DrivenOrder: the order in which a message-driven row runs, which depends on the inputs that have
// arrived. Not here: which have, in a run (engine/driven_row.cpp) or in the simulator's time
// (simulation/events.cpp). Chapter 06; Singh and Bhatele 2022.
#pragma once

#include <vector>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// Between two steps a message-driven row has two lines of work: forwards, and backwards, each with
/// its messages. Each line runs in its order, so that sums are added in the order of microbatches
/// and messages meet, but one line may get ahead of the other. All other cells keep their places.
/// An instruction's value tells which line it belongs to; a repeated forward (recomputation)
/// belongs to its backward.
class DrivenOrder {
 public:
  /// `row` must outlive it.
  DrivenOrder(const Plan& plan, const Row& row) : row_(row), limit_(plan.in_flight) {
    read_lines();
  }
  /// The cells that may be next; empty at the end: one message, drop or cell that keeps its place,
  /// or the computations that may run, of which the rank runs the first that can. The preferred one
  /// comes first: a backward frees memory, and lets the first stage begin another microbatch.
  std::vector<int> next() const;
  void ran(int cell);

 private:
  struct Line {
    std::vector<int> cells;
    std::size_t done = 0;
    bool at_end() const { return done == cells.size(); }
    int next() const { return cells[done]; }
  };

  void read_lines();
  bool may_run(const Line& line) const;

  const Row& row_;
  int end_ = 0;                // the first cell that keeps its place and has not run
  int limit_;                  // most microbatches in flight
  int in_flight_ = 0;          // forwards whose backwards have not run
  Line backwards_, forwards_;  // up to end_
};

/// The plan that ran: its rows have the order in which their cells ran.
///   orders: for each rank, the cells of its row in the order in which they ran
Plan plan_as_it_ran(const Plan& plan, const std::vector<std::vector<int>>& orders);

}  // namespace plangrad::parallel
