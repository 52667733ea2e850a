// Passages: which rank runs which microbatch through which stage. Over all ranks, every microbatch
// passes every stage once in each direction: the one thing that replays of rows share.
// Not here: what a passage needs and leaves (replay).
// Chapter 06.
#pragma once

#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

class Passages {
 public:
  explicit Passages(const Plan& plan);
  int& forward(int stage, int micro) { return forward_[place(stage, micro)]; }    ///< -1: none yet
  int& backward(int stage, int micro) { return backward_[place(stage, micro)]; }  ///< -1: none yet

  /// Every microbatch has passed every stage; unless the plan evaluates, in both directions.
  void check_end() const;

 private:
  std::size_t place(int stage, int micro) const {
    return std::size_t(stage) * (plan_.last_micro() - plan_.first_micro()) + micro -
           plan_.first_micro();
  }

  const Plan& plan_;
  std::vector<int> forward_, backward_;
};

}  // namespace paragrad::parallel
