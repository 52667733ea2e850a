// Rows: the rows of a plan while lowering writes them, cell after cell, with messages between them.
// Not here: what is to be sent, and when (lowering, homes).
// Chapter 06.
#pragma once

#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

class Rows {
 public:
  explicit Rows(int ranks) : rows_(ranks) {}

  void emit(int rank, const Instruction& x) { rows_[rank].push_back(x); }

  /// The send goes to the end of the row. The recv goes one computation before the end of the other
  /// row, so that it is posted early, but no memory is taken much before that.
  void send(int from, Instruction value, int to);

  std::vector<Row> take() { return std::move(rows_); }

 private:
  std::vector<Row> rows_;
};

}  // namespace paragrad::parallel
