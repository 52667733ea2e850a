// Norms: how large the gradients of a step are: each parameter's sum of squares, over all ranks
// where the plan clips; and the check that they are finite.
// Not here: the sums themselves (sum_book.h). Chapters 05 and 08.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "parallel/engine/losses.h"
#include "parallel/engine/sum_book.h"

namespace paragrad::parallel {

class Norms {
 public:
  /// What the references name must outlive it.
  Norms(const RowView& row, Engine& engine, Stores& stores, SumBook& book, Mailbox& mailbox,
        Waiting& waiting, const Groups& groups)
      : row_(row),
        engine_(engine),
        stores_(stores),
        book_(book),
        mailbox_(mailbox),
        waiting_(waiting),
        groups_(groups) {}

  /// A cell of the row: adds up the squares over a group, on the other lane.
  void begin(const Instruction& x);

  /// The squares of a step's whole gradient, by parameter, in Training::whole.
  const std::vector<double>& whole(int version);
  /// The squares of one stage's finished sum, zeros elsewhere.
  std::vector<double> of_stage(const Made& sum);

  /// The norm of the step's mean gradient.
  /// throws: Error unless it and the step's losses (by microbatch) are finite
  double checked(int version, const std::vector<double>& squares,
                 const std::map<int, double>& losses) const;

 private:
  /// A finished gradient whose squares this rank counts, and the message that brings it.
  struct Gradient {
    const WeightStore* store;
    Tensor values;
    TicketPtr by;
  };
  using Gradients = std::vector<Gradient>;
  struct Sum {
    Issued by;
    Tensor squares;
  };

  Gradients counted(int version, const std::vector<int>& group);
  std::vector<double> squares_of(const Gradients& gradients) const;
  std::string broken_parameter(const std::vector<double>& squares) const;

  const RowView& row_;
  Engine& engine_;
  Stores& stores_;
  SumBook& book_;
  Mailbox& mailbox_;
  Waiting& waiting_;
  const Groups& groups_;
  std::map<int, Sum> sums_;                   // by version: on their way
  std::map<int, std::vector<double>> whole_;  // by version: known
};

}  // namespace paragrad::parallel
