// Walk: runs through rows of computations with a clock, as ranks would if messages took no time. At
// each instant it ends what ends, then starts what can start. A forward or backward takes one time
// step; a step or drop takes no time.
// Not here: messages, which lowering adds as computations start and end. Chapter 06.
#pragma once

#include <deque>
#include <map>
#include <queue>
#include <vector>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

class Walk {
 public:
  using Cell = std::pair<int, int>;  // stage, and microbatch or version

  explicit Walk(const Plan& plan);
  virtual ~Walk() = default;

 protected:
  /// throws: Error if the computations wait for each other
  void walk();

  /// Whether a computation whose input has been computed may start now.
  virtual bool ready(int rank, const Instruction& x) const = 0;
  virtual void starts(int rank, const Instruction& x) = 0;
  virtual void ends(int, const Instruction&) {}
  /// Called when a rank has added a microbatch's gradient to its part of a stage's sum. `last`: the
  /// sum lacks no other gradient on any rank.
  virtual void adds(int stage, int micro, int rank, bool last) = 0;

  /// Whether the microbatch's first forward has to wait for its turn.
  bool has_turn(const Instruction& x) const;
  /// Whether a microbatch's gradient has been added to a stage's sum; for the tied stage, whether
  /// all stages that use its tensor have added theirs.
  bool added(int stage, int micro) const;
  bool first_time(const Instruction& forward) const {
    return !of(forward.stage, forward.micro).forwarded;
  }

  int now() const { return now_; }  ///< time steps since the walk began

  const Plan& plan_;  // its rows are the computations

 private:
  struct Rank {
    std::size_t next = 0;
    bool busy = false;
  };

  /// A microbatch's progress on a stage.
  struct Pass {
    bool forwarded = false;
    bool gradient = false;  // the gradient of the output exists
    bool added = false;     // the gradients of weights are in the sum
  };

  Pass& of(int stage, int micro) { return passes_.at(plan_.pass(stage, micro)); }
  const Pass& of(int stage, int micro) const { return passes_.at(plan_.pass(stage, micro)); }
  bool start_what_can();
  bool can_start(int rank, const Instruction& x) const;
  void start(int rank);
  void finish(int rank);
  void add(int stage, int micro, int rank);
  std::string lacking(const Instruction& x) const;
  void check_end() const;

  std::vector<Rank> ranks_;
  std::vector<Pass> passes_;
  std::map<Cell, int> missing_;  // gradients that the sum of (stage, version) lacks
  std::priority_queue<Cell, std::vector<Cell>, std::greater<>> ends_;  // (time, rank)
  int now_ = 0;
};

/// The first walk's result: the order in which ranks make the steps of a stage, in which a finished
/// sum then visits them, and the order in which ranks use weights that travel.
struct Order {
  /// Consecutive uses of a version by one rank, up to and including `last`.
  struct Run {
    int rank;
    Instruction last;
  };
  std::map<Walk::Cell, std::deque<int>> steppers;  // ranks, by (stage, version made)
  std::map<Walk::Cell, std::deque<Run>> users;     // by (stage, version read), if there are homes
};

/// Runs the first walk, in which sums and weights are everywhere as soon as they are made.
Order learn_order(const Plan& computations);

}  // namespace plangrad::parallel
