// DrivenOrder: the way through a row of a message-driven plan: which of its instructions may come
// next. Not here: whether their inputs have come (interpreter.cpp).
// Chapter 06; Singh and Bhatele 2022 (AxoNN).
#pragma once

#include <vector>

#include "parallel/simulation/cell_order.h"

namespace paragrad::parallel {

/// Between two steps a row has two lines of work: forwards, and backwards, each with its messages.
/// Either is run in its order, so that sums are added in the order of microbatches and messages
/// meet, but one may be ahead of where the row has it. Everything else stands where it stands.
class DrivenOrder : public CellOrder {
 public:
  /// `row` must outlive it.
  DrivenOrder(const Plan& plan, const Row& row);

  /// Cells that may be next: a message or drop, alone; or computations, the one to be preferred
  /// first: a backward frees memory, and lets the first stage begin another microbatch. Empty at
  /// the end.
  std::vector<int> next() const override;
  void ran(int cell) override;

 private:
  struct Line {
    std::vector<int> cells;
    std::size_t done = 0;
    bool over() const { return done == cells.size(); }
    int next() const { return cells[done]; }
  };
  void read_lines();
  bool may_run(const Line& line) const;

  const Row& row_;
  int limit_;          // of microbatches in flight
  int in_flight_ = 0;  // forwards whose backwards have not run
  Line backwards_, forwards_;
  int end_ = 0;  // the first cell beyond the lines
};

}  // namespace paragrad::parallel
