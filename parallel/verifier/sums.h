// Sums: the gradient sums that one rank has, by name, while the verifier replays its row.
// Not here: numbers (weight_store), weights (versions).
// Chapter 05.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "parallel/verifier/rules.h"

namespace plangrad::parallel {

/// A rank's part of the sum that makes one version of one stage. Every gradient is computed once
/// and moves with its sum: no two sums hold the same one, so counting shows whether all are there.
struct Sum {
  struct Arrived {
    int micro = -1;  ///< the sum holds all microbatches of the step up to this one; -1: no sum
    int by = -1;     ///< the cell that received it
    friend bool operator==(const Arrived&, const Arrived&) = default;
  };
  std::vector<std::pair<int, int>> own;  ///< (stage, microbatch) that this row's backwards added
  int folded = -1;        ///< folded in as well: all microbatches of the step up to this one
  bool finished = false;  ///< by a reduction; at least this rank's shard is here
  bool shard_only = false;
  Arrived partial, whole;  ///< received sums, beside `own`: one to fold, and a finished one

  friend bool operator==(const Sum&, const Sum&) = default;
};

class Sums {
 public:
  Sums(const Plan& plan, int rank);

  /// Checks what a cell does with sums, and remembers it. Adds the cells of the row that received
  /// what it takes to `brought_by`; -1 means that this rank has made it.
  void run(const Place& at, std::vector<int>& brought_by);
  void add(const Place& at, int stage);  ///< adds the gradient that a backward computes

  /// The sum that this rank brings to the reduction at a cell of its row.
  const Sum& brought(int index) const { return brought_.at(index); }
  /// The stages whose finished sum this rank counts in the norm at a cell: those that it finished
  /// itself or, in a plan with homes, those that it is home to.
  const std::vector<int>& counted(int index) const { return counted_.at(index); }

  void check_leaks() const;
  /// Adds each sum that is here, as a line that says what it holds, `back` bodies earlier.
  void add_state(int back, std::set<std::string>& lines) const;

 private:
  void receive(const Place& at);
  int send(const Place& at);
  int fold(const Place& at);
  int step(const Place& at);
  void reduce(const Place& at);
  void drop(const Place& at);
  void count(const Place& at, std::vector<int>& brought_by);

  Sum& named(const Instruction& x) { return sums_[{x.stage, plan_.made_by(x.micro)}]; }
  bool holds(const Sum& sum, int stage, int micro) const;
  Sum::Arrived& arrived(Sum& sum, int micro) const {
    return plan_.ends_step(micro) ? sum.whole : sum.partial;
  }
  static void forget_own(Sum& sum) {
    sum = {.own = {}, .partial = sum.partial, .whole = sum.whole};
  }
  int take(int stage, int version, bool own, Sum::Arrived& arrived);

  const Plan& plan_;
  int rank_;
  std::set<int> stepped_;  // stages that this row steps
  std::map<std::pair<int, int>, Sum> sums_;
  std::map<int, Sum> brought_;               // by cell
  std::map<int, std::vector<int>> counted_;  // by cell
};

/// The gradients that all `sums` together lack to make a version of a stage: "[(2, 4), (2, 5)]".
std::string lacking(const Plan& plan, const std::vector<Sum>& sums, int stage, int version);

}  // namespace plangrad::parallel
