// The order in which a message-driven plan runs, by the simulator's clock.
// Not here: which cells may be next (plan/cell_order.h), and a plan's timeline, which follows from
// any order (simulate.cpp). Chapter 06; Singh and Bhatele 2022.
#include <algorithm>
#include <limits>

#include "parallel/plan/cell_order.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/events.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {
namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();

/// The order in which a message-driven plan runs at given costs. The line of work that a rank
/// continues depends on what has arrived, so times and order are found together.
/// The computation that can begin first, on any rank, always runs next: cells that have not run yet
/// can't bring a message before that.
class DrivenSimulation {
 public:
  DrivenSimulation(const Plan& plan, const Costs& costs)
      : plan_(plan),
        costs_(costs),
        events_(events_of(plan, pair_up(plan))),
        tied_versions_(tied_versions(plan)),
        missing_(events_.size(), 0),
        waits_(events_.size()),
        end_(events_.size(), unknown) {
    for (int event : events_.of) ++missing_[event];
    for (int rank = 0; rank < plan.ranks(); ++rank)
      ranks_.push_back({plan.rows[rank], events_.row_begin[rank],
                        DrivenOrder(plan, plan.rows[rank]), RowReader(plan, tied_versions_)});
  }

  /// For each rank, the cells of its row in the order in which they run; not all, if it blocks.
  std::vector<std::vector<int>> run() {
    for (Rank& rank : ranks_) enter_messages(rank);
    for (Choice next = earliest(); next.rank; next = earliest()) {
      enter(*next.rank, next.cell);
      enter_messages(*next.rank);
    }
    std::vector<std::vector<int>> orders;
    for (Rank& rank : ranks_) orders.push_back(std::move(rank.cells));
    return orders;
  }

 private:
  struct Rank {
    const Row& row;
    int begin;  // the number of its first cell, counted over all rows
    DrivenOrder order;
    RowReader reader;
    std::vector<int> cells{};  // in the order in which they ran
  };
  struct Choice {
    Rank* rank = nullptr;
    int cell = 0;
    double start = unknown;
  };

  /// The computation that can begin first; among equals on one rank, DrivenOrder's first.
  Choice earliest() {
    Choice best;
    for (Rank& rank : ranks_)
      for (int cell : rank.order.next())
        if (double start = latest(rank.reader.awaited(rank.row[cell])); start < best.start)
          best = {&rank, cell, start};
    return best;
  }

  /// Enters a rank's messages up to its next computation or drop.
  void enter_messages(Rank& rank) {
    for (auto cells = rank.order.next(); cells.size() == 1; cells = rank.order.next()) {
      if (is_compute(rank.row[cells[0]])) return;
      enter(rank, cells[0]);
    }
  }

  void enter(Rank& rank, int cell) {
    const Instruction& x = rank.row[cell];
    const int event = events_.of[rank.begin + cell];
    for (int earlier : rank.reader.awaited(x)) waits_[event].push_back(earlier);
    --missing_[event];
    rank.reader.add(x, event);
    rank.order.ran(cell);
    rank.cells.push_back(cell);
  }

  double latest(const std::vector<int>& events) {
    double time = 0;
    for (int event : events) time = std::max(time, end(event));
    return time;
  }

  /// The time in seconds at which an event ends; unknown until all its ranks have come to it.
  double end(int event) {
    if (end_[event] != unknown || missing_[event] > 0) return end_[event];
    double start = latest(waits_[event]);
    if (events_.before[event] >= 0) start = std::max(start, end(events_.before[event]));
    if (start == unknown) return unknown;
    return end_[event] =
               start + duration(plan_, events_.rank_of(event), events_.index_of(event), costs_);
  }

  const Plan& plan_;
  const Costs& costs_;
  const Events events_;
  const std::vector<int> tied_versions_;
  std::vector<Rank> ranks_;
  std::vector<int> missing_;             // by event: number of ranks that have not come to it
  std::vector<std::vector<int>> waits_;  // by event: the events that it waits for
  std::vector<double> end_;              // by event: seconds
};

}  // namespace

Plan in_order(const Plan& plan, const Costs& costs) {
  return plan.in_flight > 0 ? plan_as_it_ran(plan, DrivenSimulation(plan, costs).run()) : plan;
}

}  // namespace plangrad::parallel
