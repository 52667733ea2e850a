// What the engine would otherwise look up at each cell.
// Chapter 05.
#include "parallel/engine/row_view.h"

namespace paragrad::parallel {

RowView::RowView(const VerifiedPlan& verified, int rank, int number)
    : plan(verified.plan()),
      row(plan.rows.at(rank)),
      rank(rank),
      number(number),
      capacity(verified.facts().capacity),
      lifetimes(plan, row),
      tied_versions(parallel::tied_versions(plan)),
      holders(parallel::holders(plan)) {
  for (const Instruction& x : row) {
    if (makes_version(x)) stepped.insert(sum_of(x));
    if (sends(x) && x.what == Value::gradient_sum && is_finished(x.micro)) sent.insert(sum_of(x));
  }
}

}  // namespace paragrad::parallel
