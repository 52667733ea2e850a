// Which line an instruction belongs to follows from what it carries. A forward that comes again
// (recomputation) belongs to its backward.
// Chapter 06.
#include "parallel/simulation/driven_order.h"

#include <set>

namespace paragrad::parallel {

DrivenOrder::DrivenOrder(const Plan& plan, const Row& row) : row_(row), limit_(plan.in_flight) {
  read_lines();
}

/// From end_ up to the next instruction that keeps its place, that one alone if there are none.
void DrivenOrder::read_lines() {
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

/// A backward's forward has run before it, as both lines have the same order of microbatches.
bool DrivenOrder::may_run(const Line& line) const {
  const Instruction& x = row_[line.next()];
  if (&line == &backwards_) return in_flight_ > 0;
  return !begins_pass(x) || in_flight_ < limit_;
}

// [snippet next]
std::vector<int> DrivenOrder::next() const {
  std::vector<int> cells;
  for (const Line* line : {&backwards_, &forwards_}) {
    if (line->over()) continue;
    if (!uses_weights(row_[line->next()])) return {line->next()};
    if (may_run(*line)) cells.push_back(line->next());
  }
  if (cells.empty() && end_ < static_cast<int>(row_.size())) cells.push_back(end_);
  return cells;
}
// [end snippet]

void DrivenOrder::ran(int cell) {
  if (cell == end_) {
    ++end_;
    return read_lines();
  }
  const bool of_backwards = !backwards_.over() && backwards_.next() == cell;
  ++(of_backwards ? backwards_ : forwards_).done;
  if (goes_back(row_[cell])) --in_flight_;
  if (begins_pass(row_[cell]) && !of_backwards) ++in_flight_;
}

}  // namespace paragrad::parallel
