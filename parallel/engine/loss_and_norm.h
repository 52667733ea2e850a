// LossAndNorm: the losses of an update's microbatches, and the size of its gradients: each
// parameter's sum of squares, over all ranks if the plan clips; and the check that all of them are
// finite. Not here: the gradient sums themselves (sum_book.h). Chapters 05 and 08.
#pragma once

#include "parallel/engine/sum_book.h"

namespace plangrad::parallel {

class LossAndNorm {
 public:
  /// The arguments are kept by reference and must outlive it.
  LossAndNorm(RowRun& run, SumBook& book, Mailbox& mailbox, Waiting& waiting)
      : run_(run), book_(book), mailbox_(mailbox), waiting_(waiting) {}

  /// Keeps a microbatch's loss on the device: reading it in each forward would wait for the device.
  void keep_loss(int micro, const Tensor& loss);
  /// Moves the losses that were kept to the run's result.
  void read_losses();

  /// Starts a norm: adds up the squares over a group, on the other lane.
  void begin(const Instruction& x);
  /// The sums of squares of an update's whole gradient, by parameter of Training::whole.
  const std::vector<double>& whole(int version);
  /// The sums of squares of one stage's finished gradient sum; zeros for other parameters.
  std::vector<double> of_stage(const Made& sum);

  /// Forgets the norms of updates that all stages here have made.
  void forget_stepped();

  /// The norm of the update's mean gradient. Reads the losses, too.
  /// throws: Error unless the norm and the update's losses are finite
  double checked(int version, const std::vector<double>& squares);

 private:
  friend struct TableSizes;  // of tests
  /// A finished gradient whose squares this rank counts, and the message that brings it.
  struct Gradient {
    const WeightStore* store;
    Tensor values;
    TicketPtr by;
  };
  using Gradients = std::vector<Gradient>;

  Gradients counted(int version, const std::vector<int>& group);
  std::vector<double> squares_of(const Gradients& gradients) const;
  std::string broken_parameter(const std::vector<double>& squares) const;

  RowRun& run_;
  SumBook& book_;
  Mailbox& mailbox_;
  Waiting& waiting_;
  Tensor losses_;                             // of unread_, at most one update's
  std::vector<int> unread_;                   // microbatches
  std::map<int, Arriving> sums_;              // by version: on their way
  std::map<int, std::vector<double>> whole_;  // by version: known
};

}  // namespace plangrad::parallel
