// Sums: the gradient sums that one rank has, by name, while the verifier replays its row.
// Not here: numbers (weight_store), weights (versions).
// Chapter 05.
#pragma once

#include <map>
#include <set>
#include <utility>
#include <vector>

#include "parallel/verifier/place.h"

namespace paragrad::parallel {

/// What a rank has of the sum that makes one version of one stage. Every gradient is computed once
/// and moves with its sum: no two sums hold the same one, so counting shows whether all are there.
struct Sum {
  struct Arrived {
    int micro = -1;  ///< it holds all microbatches of the step up to this one; -1: nothing is here
    int by = -1;     ///< the cell that received it
  };
  std::vector<std::pair<int, int>> own;  ///< (stage, microbatch) that this row's backwards added
  int folded = -1;        ///< with them: all microbatches of the step up to this one, folded in
  bool finished = false;  ///< by a reduction; at least this rank's shard is here
  bool shard_only = false;
  Arrived partial, whole;  ///< beside it, received: one to fold, and a finished one
};

class Sums {
 public:
  Sums(const Plan& plan, int rank);

  void add(const Place& at, int stage);  ///< the gradient that a backward computes
  void receive(const Place& at);
  Sum reduce(const Place& at);  ///< returns: what this rank brings
  void drop(const Place& at);

  /// These return the cell that received what they need, or -1.
  int send(const Place& at);
  int fold(const Place& at);
  int step(const Place& at);

  /// The stages whose finished sum this rank counts in the norm: those that it finished itself or,
  /// in a plan with homes, those that it is home to. Adds the cells that received them to `waits`.
  std::vector<int> counted(int version, std::vector<int>& waits) const;

  void check_leaks() const;

 private:
  Sum& named(const Instruction& x) { return sums_[{x.stage, plan_.made_by(x.micro)}]; }
  int last_micro(int version) const { return version * plan_.per_step - 1; }
  bool complete(const Sum& sum, int stage, int version) const;
  bool holds(const Sum& sum, int stage, int micro) const;
  Sum::Arrived& arrived(Sum& sum, int micro) const {
    return micro == last_micro(plan_.made_by(micro)) ? sum.whole : sum.partial;
  }
  static void forget_own(Sum& sum) {
    sum = {.own = {}, .partial = sum.partial, .whole = sum.whole};
  }
  void tidy(int stage, int version);

  const Plan& plan_;
  int rank_;
  std::set<std::pair<int, int>> stepped_;  // (stage, version) that this row steps
  std::map<std::pair<int, int>, Sum> sums_;
};

/// "[(2, 4), (2, 5)]": the gradients that sums lack together to make a version of a stage.
std::string lacking(const Plan& plan, const std::vector<Sum>& sums, int stage, int version);

}  // namespace paragrad::parallel
