// A message-driven row: its forwards and backwards run in the order in which their inputs arrive.
// Not here: which cells may run next (plan/timeline.cpp). Chapter 06.
#include "parallel/engine/interpreter.h"

namespace plangrad::parallel {

/// Runs a message-driven row: between two steps, the cell whose input has arrived.
void Interpreter::run_driven() {
  DrivenOrder order(run_.plan, run_.plan.rows[run_.rank]);
  for (std::vector<int> cells = order.next(); !cells.empty(); cells = order.next()) {
    const int cell = cells.size() == 1 ? cells.front() : first_ready(cells);
    run_cell(cell);
    order.ran(cell);
    run_.result.order.push_back(cell);
  }
}

/// Turns the cells of records from places in the row as written into places in the order that ran.
void Interpreter::number_records_as_run() {
  const std::vector<int>& order = run_.result.order;
  std::vector<int> place(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = static_cast<int>(i);
  for (Record& record : run_.result.records) record.cell = place[record.cell];
}

// [snippet first_ready]
/// Waits until the input of one of these computations is here; returns the first of those.
int Interpreter::first_ready(const std::vector<int>& cells) {
  for (;;) {
    std::vector<const Ticket*> awaited;
    for (int cell : cells) {
      const Arriving* input = input_of(run_.at(cell));
      if (!input || lane_.is_done(*input->by.ticket)) return cell;
      awaited.push_back(input->by.ticket.get());
    }
    waiting_.wait_for_any(awaited, input_of(run_.at(cells.front()))->by.cell);
  }
}

/// The message that brings a forward or backward its input; null if there is none.
const Arriving* Interpreter::input_of(const Instruction& x) const {
  const bool from_before = begins_pass(x) && !run_.engine.runner(x.stage).under_way(x.micro);
  const Arriving* input =
      mailbox_.arriving(from_before ? Name{Value::activation, x.stage - 1, x.micro}
                                    : Name{Value::activation_gradient, x.stage, x.micro});
  return input && input->by.ticket ? input : nullptr;
}
// [end snippet]

}  // namespace plangrad::parallel
