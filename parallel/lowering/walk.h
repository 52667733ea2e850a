// Walk: goes through rows of computations with a clock, as ranks would if messages took no time: at
// each instant it ends what ends, then starts what can. A forward or backward takes one unit of
// time, a step or drop none.
// Not here: what happens on the way; lowering adds messages there. Chapter 06.
#pragma once

#include <map>
#include <queue>
#include <set>
#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// A mark for each microbatch of a plan on each stage.
class Marks {
 public:
  explicit Marks(const Plan& plan)
      : first_(plan.first_micro()),
        micros_(plan.last_micro() - first_),
        marks_(static_cast<std::size_t>(plan.stages) * micros_) {}
  void set(int stage, int micro) { marks_.at(place(stage, micro)) = true; }
  bool has(int stage, int micro) const { return marks_.at(place(stage, micro)); }

 private:
  std::size_t place(int stage, int micro) const {
    return static_cast<std::size_t>(stage) * micros_ + (micro - first_);
  }

  int first_, micros_;
  std::vector<bool> marks_;
};

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
  virtual void ends(int rank, const Instruction& x) = 0;
  /// A rank has added a microbatch's gradient to its part of a stage's sum. `last`: nothing is
  /// missing any more on any rank.
  virtual void adds(int stage, int micro, int rank, bool last) = 0;

  /// Whether the microbatch's first forward has to wait for its turn.
  bool has_turn(const Instruction& x) const;
  /// Whether the microbatch's gradient has been added to the stage's sum; to the tied stage's, by
  /// all who use the tensor.
  bool added(int stage, int micro) const;
  bool first_time(const Instruction& forward) const {
    return !forwarded_.has(forward.stage, forward.micro);
  }

  int now() const { return now_; }

  const Plan& plan_;  // its rows are the computations

 private:
  struct Rank {
    std::size_t next = 0;
    bool busy = false;
  };

  bool start_what_can();
  bool can_start(int rank, const Instruction& x) const;
  void start(int rank);
  void finish(int rank);
  void add(int stage, int micro, int rank);
  [[noreturn]] void stuck() const;

  std::vector<Rank> ranks_;
  Marks forwarded_;
  Marks gradients_;              // of outputs, on the stage whose output it is
  Marks added_;                  // of weights
  std::map<Cell, int> missing_;  // contributions to (stage, version)
  std::priority_queue<Cell, std::vector<Cell>, std::greater<>> ends_;  // (time, rank)
  int now_ = 0;
};

}  // namespace paragrad::parallel
