// Walk: runs through rows of computations with a clock, as ranks would if messages took no time. At
// each instant it ends what ends, then starts what can start. A forward or backward takes one time
// step; a step or drop takes no time. Lowering: the second walk, which writes each message at its
// instant into the rows of all its ranks, so that no plan from here can hang, even if sends wait
// for receives. Not here: the interface of the room (lower.h).
// Chapters 06 (activations, sums in a group) and 08 (sums in a ring, turns, weights that travel).
#pragma once

#include <deque>
#include <functional>
#include <queue>
#include <set>

#include "parallel/lowering/lower.h"

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

/// Returns a group's number in the plan's header, and adds the group there if it is new.
int group_of(Plan& plan, const std::vector<int>& ranks);

/// Adds the gathers and drops of ZeRO level 3; does nothing at other levels.
void add_gathers(Plan& plan);

/// Adds both ends of a message to rows that are being written, cell after cell. The send is put at
/// the end of its row. The recv is put one computation before the end of the other row: it is
/// posted early, but takes memory only shortly before the value arrives.
void send(std::vector<Row>& rows, int from, Instruction value, int to);

/// Weights that travel. A stage's home keeps its newest version and makes its steps. A rank that
/// uses a version passes it on when it begins its last use, and drops its copy afterwards; the home
/// keeps its own.
/// source: Fournier and Oyallon 2024, section 3.2 (ZeRO-DP)
class Homes {
 public:
  using Version = std::pair<int, int>;  // stage, version
  using Users = std::map<Version, std::deque<Order::Run>>;

  /// Does nothing in plans without homes. `computations` and `rows` must outlive it.
  Homes(const Plan& computations, Users users, std::vector<Row>& rows);

  /// Places the versions that exist before the plan begins.
  void begin();

  /// Whether the weights that x reads are here and it is the rank's turn to use them. Homes wait
  /// for turns, too, so that a version never comes back to a rank that still has a copy.
  bool can_read(int rank, const Instruction& x) const;

  void hand_over(int rank, const Instruction& x);  ///< passes weights on when x is about to begin
  void begun(int rank);                            ///< notes that the next computation has begun
  void let_go(int rank, const Instruction& x);     ///< drops the copy of weights when x has ended

  void step(int stage, int version);

 private:
  void appear(Version version);
  void hand_to_first(int user);
  void pass(Version version, int from, int to);
  bool ends_run(const Instruction& x) const;

  const Plan& plan_;
  Users users_;
  std::vector<Row>& rows_;
  std::vector<std::ptrdiff_t> begun_;      // by rank: its computations that have begun
  std::set<std::pair<Version, int>> has_;  // a version and a rank that has it
  std::set<Version> waiting_;              // versions that have not left their home yet
};

class Lowering : public Walk {
 public:
  /// `computations` must outlive it.
  Lowering(const Plan& computations, SumPath path, Order order);
  Plan run();

 private:
  struct RingSum {
    int next;   // the first microbatch whose gradient is not in the sum
    int after;  // the gradients before this microbatch exist
  };

  bool ready(int rank, const Instruction& x) const override;
  void starts(int rank, const Instruction& x) override;
  void ends(int rank, const Instruction& x) override;
  void adds(int stage, int micro, int rank, bool last) override;

  // lower.cpp: what one computation makes and another needs.
  void deliver(int rank, Value what, int stage, int micro, const std::map<Cell, int>& consumers,
               int consumer);
  void pass_turn(int rank, int micro);

  // lower_sums.cpp
  bool in_ring(int stage) const;
  void reduce_in_group(int stage, int version);
  void pass_on(int stage, int version);
  void finish_sum(int stage, int version, int rank);
  void visit_next(int stage, int version, int from);
  void add_norms(int version);
  int departure(int stage, int version, int hop) const;
  void send_sum(int stage, int micro, int from, int to, int hop);
  void send_held();

  // lower_weights.cpp: ZeRO 1 and 2.
  bool stepped_everywhere(const Instruction& x) const;
  void gather_stepped();

  SumPath path_;
  Order order_;
  Plan out_;  // the result; its rows and groups grow
  Homes homes_;
  std::vector<std::vector<int>> holders_;             // per stage: ranks
  std::map<Cell, int> forward_rank_, backward_rank_;  // of (stage, microbatch)
  std::map<int, std::set<int>> ranks_of_micro_;

  std::vector<int> tied_versions_;
  std::map<Cell, std::size_t> steps_made_;          // by (version, stage): number of ranks
  std::set<Cell> stepped_;                          // by all, and not gathered: (version, stage)
  std::map<Cell, RingSum> ring_;                    // by (stage, version)
  std::set<Cell> summed_;                           // finished sums (stage, version)
  std::set<std::pair<Cell, int>> has_sum_;          // in a ring: (finished sum, rank that has it)
  std::set<int> normed_;                            // versions whose norm is known
  std::multimap<int, std::function<void()>> held_;  // sums that leave later, by time
};

}  // namespace plangrad::parallel
