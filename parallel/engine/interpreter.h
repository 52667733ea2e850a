// Interpreter: runs one rank's row of a plan. Computations run here, one after another; messages go
// to the other lane by way of the mailbox.
// Not here: what outlives the plan (engine.h). Chapter 05.
#pragma once

#include "parallel/engine/loss_and_norm.h"
#include "parallel/engine/progress.h"

namespace plangrad::parallel {

class Interpreter {
 public:
  /// The arguments must outlive it. `number`: the plan's number in the run.
  Interpreter(Engine& engine, const VerifiedPlan& plan, int number, Batches& batches,
              const Course& course);
  RunResult run();
  /// Returns the results that this rank has not reported yet.
  RunResult& result() { return run_.result; }

 private:
  friend struct TableSizes;  // of tests
  void run_driven();
  void number_records_as_run();
  void run_cell(int cell);
  void pause(int bodies);
  void execute(const Instruction& x);
  std::pair<Tensor, Tensor> read_weights();
  void forward(const Instruction& x);
  void backward(const Instruction& x);
  void step(const Instruction& x);
  void drop(const Instruction& x);
  void send(const Instruction& x);
  void receive(const Instruction& x);
  void gather(const Instruction& x);

  int first_ready(const std::vector<int>& cells);
  const Arriving* input_of(const Instruction& x) const;
  void free_unread();

  RowRun run_;
  const Course& course_;
  Batches& batches_;
  std::vector<Name> needed_;  // by the present cell
  Waiting waiting_;
  Mailbox mailbox_;
  SumBook book_;
  LossAndNorm measured_;
  Progress progress_;
  MessageLane lane_;  // last: its tasks use the members above
};

}  // namespace plangrad::parallel
