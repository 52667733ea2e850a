// Walk: goes through rows of computations with a clock, as ranks would if messages took no time: at
// each instant it ends what ends, then starts what can. A forward or backward takes one unit of
// time, a step or drop none.
// Not here: what happens on the way; lowering adds messages there. Chapter 06.
#pragma once

#include <deque>
#include <map>
#include <queue>
#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

class Walk {
 public:
  using Cell = std::pair<int, int>;  // stage, and microbatch or version

  explicit Walk(const Plan& plan);
  virtual ~Walk() = default;

 protected:
  /// throws: Error if the computations wait for each other
  void walk();

  /// Whether a computation whose activations are there may start now.
  virtual bool ready(int rank, const Instruction& x) const = 0;
  virtual void starts(int rank, const Instruction& x) = 0;
  virtual void ends(int, const Instruction&) {}
  /// A rank has added a microbatch's gradient to its part of a stage's sum. `last`: nothing is
  /// missing any more on any rank.
  virtual void adds(int stage, int micro, int rank, bool last) = 0;

  /// Whether the microbatch's first forward has to wait for its turn.
  bool has_turn(const Instruction& x) const;
  /// Whether the microbatch's gradient has been added to the stage's sum; to the tied stage's, by
  /// all who use the tensor.
  bool added(int stage, int micro) const;
  bool first_time(const Instruction& forward) const {
    return !of(forward.stage, forward.micro).forwarded;
  }

  int now() const { return now_; }

  const Plan& plan_;  // its rows are the computations

 private:
  struct Rank {
    std::size_t next = 0;
    bool busy = false;
  };

  /// A microbatch's progress on a stage.
  struct Pass {
    bool forwarded = false;
    bool gradient = false;  // of the output: it is there
    bool added = false;     // gradients of weights: they are in the sum
  };

  Pass& of(int stage, int micro) { return passes_.at(plan_.pass(stage, micro)); }
  const Pass& of(int stage, int micro) const { return passes_.at(plan_.pass(stage, micro)); }
  bool start_what_can();
  bool can_start(int rank, const Instruction& x) const;
  void start(int rank);
  void finish(int rank);
  void add(int stage, int micro, int rank);
  void check_end() const;

  std::vector<Rank> ranks_;
  std::vector<Pass> passes_;
  std::map<Cell, int> missing_;  // contributions to (stage, version)
  std::priority_queue<Cell, std::vector<Cell>, std::greater<>> ends_;  // (time, rank)
  int now_ = 0;
};

/// The first walk's result: in which order ranks make the steps of a stage, so that a finished sum
/// visits them in this order, and in which they use weights that travel.
struct Order {
  /// Uses of a version by one rank, one after the other with no other rank's between.
  struct Run {
    int rank;
    Instruction last;
  };
  std::map<Walk::Cell, std::deque<int>> steppers;  // ranks, by (stage, version made)
  std::map<Walk::Cell, std::deque<Run>> users;     // by (stage, version read), if there are homes
};

/// In the first walk, sums and weights are everywhere as soon as they are made.
Order learn_order(const Plan& computations);

}  // namespace paragrad::parallel
