// The computation that can begin first, on any rank, is always next: what has not run yet can't
// bring a message before that. Chapter 06.
#include "parallel/simulation/driven_simulation.h"

#include <algorithm>
#include <limits>

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/arrivals.h"
#include "parallel/simulation/driven_order.h"

namespace paragrad::parallel {
namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();

class DrivenSimulation {
 public:
  DrivenSimulation(const Plan& plan, const Costs& costs, const Events& events)
      : plan_(plan), costs_(costs), events_(events), tied_versions_(tied_versions(plan)) {
    missing_.assign(events.of.size(), 0);
    for (int event : events.of) ++missing_[event];
    waits_.resize(events.of.size());
    end_.assign(events.of.size(), unknown);
    int begin = 0;
    for (const Row& row : plan.rows) {
      ranks_.push_back({row, begin, DrivenOrder(plan, row), Arrivals(plan, tied_versions_)});
      for (std::size_t i = 0; i < row.size(); ++i)
        rank_of_.push_back(static_cast<int>(ranks_.size()) - 1);
      begin += static_cast<int>(row.size());
    }
  }

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
    int begin;  // its first cell's number among all
    DrivenOrder order;
    Arrivals arrivals;
    std::vector<int> cells{};  // as they were run
    int computation = -1;      // the last one's event
  };
  struct Choice {
    Rank* rank = nullptr;
    int cell = 0;
    double start = unknown;
  };

  /// Of two on one rank that can begin, the one it prefers, which DrivenOrder has first.
  Choice earliest() {
    Choice best;
    for (Rank& rank : ranks_)
      for (int cell : rank.order.next())
        if (double start = latest(inputs(rank, cell)); start < best.start)
          best = {&rank, cell, start};
    return best;
  }

  /// Messages, and all else that takes a rank no time, as soon as their turn comes.
  void enter_messages(Rank& rank) {
    for (auto cells = rank.order.next(); cells.size() == 1; cells = rank.order.next()) {
      if (is_compute(rank.row[cells[0]])) return;
      enter(rank, cells[0]);
    }
  }

  void enter(Rank& rank, int cell) {
    const Instruction& x = rank.row[cell];
    const int event = events_.of[rank.begin + cell];
    for (int input : inputs(rank, cell)) waits_[event].push_back(input);
    --missing_[event];
    rank.arrivals.add(x, event);
    if (is_compute(x)) rank.computation = event;
    rank.order.ran(cell);
    rank.cells.push_back(cell);
  }

  std::vector<int> inputs(const Rank& rank, int cell) const {
    std::vector<int> events = rank.arrivals.inputs(rank.row[cell]);
    if (rank.computation >= 0) events.push_back(rank.computation);
    return events;
  }

  double latest(const std::vector<int>& events) {
    double time = 0;
    for (int event : events) time = std::max(time, end(event));
    return time;
  }

  /// Unknown until all its ranks have come to it.
  double end(int event) {
    if (end_[event] != unknown || missing_[event] > 0) return end_[event];
    double start = latest(waits_[event]);
    if (events_.before[event] >= 0) start = std::max(start, end(events_.before[event]));
    if (start == unknown) return unknown;
    const int rank = rank_of_[event];
    const Instruction& x = ranks_[rank].row[event - ranks_[rank].begin];
    return end_[event] = start + duration(x, rank, plan_, costs_);
  }

  const Plan& plan_;
  const Costs& costs_;
  const Events& events_;
  const std::vector<int> tied_versions_;
  std::vector<Rank> ranks_;
  std::vector<int> rank_of_;             // by cell
  std::vector<int> missing_;             // by event: ranks that have not come to it
  std::vector<std::vector<int>> waits_;  // by event: for which others
  std::vector<double> end_;              // by event
};

}  // namespace

std::vector<std::vector<int>> driven_orders(const Plan& plan, const Costs& costs,
                                            const Events& events) {
  return DrivenSimulation(plan, costs, events).run();
}

}  // namespace paragrad::parallel
