// Orders: list_order() and search_order() put the cells of one update in order. Stages lie on ranks
// in any way, and each rank keeps a limited number of activations. The list scheduler runs what is
// ready; a beam search (order_search.cpp) finds a short order, and a bound that holds for all.
// Not here: messages (lowering/), exact times (simulation/).
// Chapter 06; Carlier 1982, "The one-machine sequencing problem" (the bound).
#pragma once

#include "parallel/simulation/costs.h"

namespace plangrad::parallel {

/// An update whose cells are to be ordered.
struct OrderTask {
  static constexpr int most_stages = 1024;
  std::vector<int> place = {0};  ///< by stage: its rank
  int microbatches = 1;
  bool split = false;               ///< backwards have two parts
  Costs costs = {};                 ///< updates and sums count after a stage's last gradient
  std::vector<double> kept = {1};   ///< by stage, or one for all: what a forward keeps until its
                                    ///< gradient is added: bytes, or in another unit
  std::vector<double> most = {};    ///< by rank, or one for all: the most that it may keep, in the
                                    ///< same unit; empty: there is no limit
  bool clip = false, tied = false;  ///< of the plan: see Layout

  int stages() const { return static_cast<int>(place.size()); }
  int ranks() const;
  /// The plan, which has no cells yet.
  Plan without_cells() const;
  double kept_of(int stage) const { return value_at(stage, kept); }
  double most_of(int rank) const;
};

/// throws: Error if lists do not fit; if a rank may not keep what one microbatch needs, the least
///         that suffices
void check(const OrderTask& task);

/// The cells of one stage and kind. They run by microbatch: if in some order they do not, those of
/// two microbatches can change places, and it takes no longer.
struct Stream {
  char letter = 'F';  ///< F, B, I or W
  int stage = 0, rank = 0;
  double seconds = 0;  ///< of a cell
  int input = -1;      ///< the stream whose cell of the same microbatch comes before; -1: none
  double delay = 0;    ///< seconds of the message between the two
};
/// All streams: forwards by stage, then backwards or their input parts, then weight parts.
std::vector<Stream> streams_of(const OrderTask& task);

/// An order that is being written, in the order of time, with a clock: a cell begins when its rank
/// is free and its input has arrived. Messages do not wait for each other here, so a simulation,
/// which knows more, never takes less time.
class PartialOrder {
 public:
  static constexpr double never = std::numeric_limits<double>::infinity();

  /// Both must outlive it and its copies. The task is one that check() accepts.
  PartialOrder(const OrderTask& task, const std::vector<Stream>& streams);

  /// The seconds from which the next cell of a stream can run; never: it can't be next on its rank.
  double start(int stream) const;
  /// Runs the next cell of a stream.
  void add(int stream);

  int done(int stream) const { return done_[stream]; }  ///< its cells that have run
  double free(int rank) const { return free_[rank]; }   ///< seconds from which it is
  double now() const { return now_; }                   ///< when the last cell began
  bool is_complete() const { return sequence_.size() == end_.size(); }
  Plan rows() const;

 private:
  bool fits(const Stream& forward) const;

  const OrderTask* task_;
  const std::vector<Stream>* streams_;
  std::vector<int> done_;                // by stream
  std::vector<double> free_, end_;       // by rank; by stream and microbatch
  std::vector<std::uint16_t> sequence_;  // streams of the cells, as they ran
  double now_ = 0;
};

/// The order that follows if a free rank always begins, of the cells that are ready, the one whose
/// letter comes first; among equals that of the first microbatch, then of the last stage. It ends,
/// as no forward takes room that a microbatch needs to pass the rank's other stages.
///   letters: "BF" or "FB"; I, F and W in any order, as "IFW", if backwards are split
///   ahead: by rank, or one for all, from 1 on: microbatches that may be between the forward and
///          the backward, or its input part, of a stage; empty: any number
/// returns: rows of computations alone
/// throws: Error
Plan list_order(const OrderTask& task, const std::string& letters,
                const std::vector<int>& ahead = {});

/// The most that each rank of a plan of one update keeps, in the task's unit.
std::vector<double> most_kept(const OrderTask& task, const Plan& plan);

// ---- the search (order_search.cpp) ----

struct FoundOrder {
  Plan rows;               ///< computations alone: plan_of_rows() makes a plan of them
  double seconds = 0;      ///< of the plan, simulated
  double bound = 0;        ///< no order takes less, with its updates
  std::size_t states = 0;  ///< parts of orders that were looked at
};

/// Tells how many cells the orders of a beam have, of how many, and the best order until then.
using OrderProgress = std::function<void(int cells, int all, const FoundOrder& best)>;

/// Finds a short order: that of the list scheduler by some priorities, or a shorter one that a beam
/// search finds. A step of it adds a cell to each order that was begun, in all ways in which that
/// can pay, and keeps the `width` most promising ones. Narrow beams come first: with the best order
/// known, later ones leave out what can't be shorter. The best of each beam are lowered, verified
/// and simulated. The same task has the same result.
/// throws: Error, also if the task is too large
FoundOrder search_order(const OrderTask& task, int width, const OrderProgress& progress = {});

}  // namespace plangrad::parallel
