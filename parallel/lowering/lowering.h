// Lowering: the second walk, which writes rows with messages. Every message is issued at its
// instant, by all who take part, so all rows have them in one global order, and no plan that comes
// from here can hang, even if sends wait for their receives.
// Not here: weights that travel (homes), the place of a message in its rows (rows).
// Chapters 06 (activations, sums in a group) and 08 (sums in a ring, turns).
#pragma once

#include <functional>

#include "parallel/lowering/homes.h"
#include "parallel/lowering/lower.h"

namespace paragrad::parallel {

/// The number of a group in the plan's header, where it is added if it is new.
int group_of(Plan& plan, const std::vector<int>& ranks);

/// Adds the gathers, and drops, of ZeRO 3.
void add_gathers(Plan& plan);

class Lowering : public Walk {
 public:
  /// `computations` must outlive it.
  Lowering(const Plan& computations, SumPath path, Order order);
  Plan run();

 private:
  struct RingSum {
    int next;   // the microbatch whose gradient it lacks
    int after;  // gradients before this microbatch are there
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

  // steady_ring.cpp
  int departure(int stage, int version, int hop) const;
  void send_sum(int stage, int micro, int from, int to, int hop);
  void send_held();

  // shards.cpp: ZeRO 1 and 2.
  bool stepped_everywhere(const Instruction& x) const;
  void count_step(const Instruction& x);
  void gather_stepped();

  SumPath path_;
  Order order_;
  Plan out_;  // the header; its rows come at the end
  Rows rows_;
  Homes homes_;
  std::vector<std::vector<int>> holders_;             // per stage
  std::map<Cell, int> forward_rank_, backward_rank_;  // of (stage, microbatch)
  std::map<int, std::set<int>> ranks_of_micro_;

  std::vector<int> tied_versions_;
  std::map<Cell, std::size_t> steps_made_;          // by (version, stage): ranks
  std::set<Cell> gathered_;                         // (version, stage)
  std::map<Cell, RingSum> ring_;                    // by (stage, version)
  std::set<Cell> summed_;                           // finished sums (stage, version)
  std::set<std::pair<Cell, int>> has_sum_;          // and the ranks that have them, in a ring
  std::set<int> normed_;                            // versions whose norm is known
  std::multimap<int, std::function<void()>> held_;  // sums that leave later, by time
};

}  // namespace paragrad::parallel
