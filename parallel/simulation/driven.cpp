// The order in which a row runs: cell after cell, unless the plan is message-driven.
// Not here: whether inputs have arrived in a real run (interpreter.cpp), and a plan's timeline,
// which follows from any order (simulate.cpp). Chapter 06; Singh and Bhatele 2022.
#include <algorithm>
#include <limits>
#include <set>

#include "autograd/error.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/events.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {
namespace {

/// The order of a message-driven row. Between two steps a row has two lines of work: forwards, and
/// backwards, each with its messages. Each line runs in its order, so that sums are added in the
/// order of microbatches and messages meet, but one line may get ahead of the other. All other
/// cells keep their places. An instruction's value tells which line it belongs to; a repeated
/// forward (recomputation) belongs to its backward.
class DrivenOrder : public CellOrder {
 public:
  DrivenOrder(const Plan& plan, const Row& row) : CellOrder(row), limit_(plan.in_flight) {
    read_lines();
  }

  /// Returns one message or drop, or the computations that may run, the preferred one first: a
  /// backward frees memory, and lets the first stage begin another microbatch.
  // [snippet next]
  std::vector<int> next() const override {
    std::vector<int> cells;
    for (const Line* line : {&backwards_, &forwards_}) {
      if (line->at_end()) continue;
      if (!uses_weights(row_[line->next()])) return {line->next()};
      if (may_run(*line)) cells.push_back(line->next());
    }
    return cells.empty() ? CellOrder::next() : cells;
  }
  // [end snippet]

  void ran(int cell) override {
    if (cell == end_) {
      ++end_;
      return read_lines();
    }
    const bool of_backwards = !backwards_.at_end() && backwards_.next() == cell;
    ++(of_backwards ? backwards_ : forwards_).done;
    if (goes_back(row_[cell])) --in_flight_;
    if (begins_pass(row_[cell]) && !of_backwards) ++in_flight_;
  }

 private:
  struct Line {
    std::vector<int> cells;
    std::size_t done = 0;
    bool at_end() const { return done == cells.size(); }
    int next() const { return cells[done]; }
  };

  /// Reads both lines, from end_ up to the next instruction that keeps its place.
  void read_lines() {
    forwards_ = backwards_ = {};
    std::set<int> begun;  // microbatches
    for (; end_ < static_cast<int>(row_.size()); ++end_) {
      const Instruction& x = row_[end_];
      const bool backward = goes_back(x) || x.what == Value::activation_gradient;
      const bool again = begins_pass(x) && !begun.insert(x.micro).second;
      if (backward || again)
        backwards_.cells.push_back(end_);
      else if (begins_pass(x) || x.what == Value::activation)
        forwards_.cells.push_back(end_);
      else
        break;
    }
  }

  /// Whether a line's computation may run. A forward in flight is the one of the next backward, as
  /// both lines have the same order of microbatches.
  bool may_run(const Line& line) const {
    if (&line == &backwards_) return in_flight_ > 0;
    return !begins_pass(row_[line.next()]) || in_flight_ < limit_;
  }

  int limit_;                  // most microbatches in flight
  int in_flight_ = 0;          // forwards whose backwards have not run
  Line backwards_, forwards_;  // up to end_
};

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
        events_(events_of(plan)),
        tied_versions_(tied_versions(plan)),
        missing_(events_.size(), 0),
        waits_(events_.size()),
        end_(events_.size(), unknown) {
    for (int event : events_.of) ++missing_[event];
    for (int rank = 0; rank < plan.ranks(); ++rank)
      ranks_.push_back({plan.rows[rank], events_.row_begin[rank],
                        DrivenOrder(plan, plan.rows[rank]), Arrivals(plan, tied_versions_)});
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
    Arrivals arrivals;
    std::vector<int> cells{};  // in the order in which they ran
    int computation = -1;      // the event of the last computation
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
        if (double start = latest(inputs(rank, cell)); start < best.start)
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

  /// The time in seconds at which an event ends; unknown until all its ranks have come to it.
  double end(int event) {
    if (end_[event] != unknown || missing_[event] > 0) return end_[event];
    double start = latest(waits_[event]);
    if (events_.before[event] >= 0) start = std::max(start, end(events_.before[event]));
    if (start == unknown) return unknown;
    const int rank = events_.rank_of(event);
    return end_[event] = start + duration(plan_, rank, event - events_.row_begin[rank], costs_);
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

std::unique_ptr<CellOrder> make_order(const Plan& plan, const Row& row) {
  if (plan.in_flight > 0) return std::make_unique<DrivenOrder>(plan, row);
  return std::make_unique<CellOrder>(row);
}

Plan recorded(const Plan& plan, const std::vector<std::vector<int>>& orders) {
  PG_CHECK(static_cast<int>(orders.size()) == plan.ranks(), "expected the orders of ", plan.ranks(),
           " ranks, got ", orders.size());
  Plan result = plan;
  result.in_flight = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    PG_CHECK(orders[rank].size() == plan.rows[rank].size(), "rank ", rank, " ran ",
             orders[rank].size(), " of ", plan.rows[rank].size(), " instructions");
    for (std::size_t i = 0; i < orders[rank].size(); ++i)
      result.rows[rank][i] = plan.rows[rank].at(orders[rank][i]);
  }
  return result;
}

Plan in_order(const Plan& plan, const Costs& costs) {
  return plan.in_flight > 0 ? recorded(plan, DrivenSimulation(plan, costs).run()) : plan;
}

}  // namespace plangrad::parallel
