// In a message-driven row, forwards and backwards are two lines of work.
// Not here: which inputs have arrived, in a run (engine/driven_row.cpp) or in the simulator's time
// (simulation/driven.cpp). Chapter 06; Singh and Bhatele 2022.
#include "parallel/plan/cell_order.h"

#include <set>

#include "autograd/error.h"

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

}  // namespace

std::unique_ptr<CellOrder> make_order(const Plan& plan, const Row& row) {
  if (plan.in_flight > 0) return std::make_unique<DrivenOrder>(plan, row);
  return std::make_unique<CellOrder>(row);
}

Plan plan_as_it_ran(const Plan& plan, const std::vector<std::vector<int>>& orders) {
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

}  // namespace plangrad::parallel
