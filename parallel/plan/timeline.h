// Timeline: when each instruction of a plan ran, or would run. The engine measures one, the
// simulator predicts one; all questions about time are asked of either alike. DrivenOrder: the
// order in which a message-driven row runs, which depends on the inputs that have arrived.
// Not here: what is alive and sent meanwhile (simulation/time_steps.h), pictures; which inputs have
// arrived, in a run (engine/driven_row.cpp) or in the simulator's time (simulation/events.cpp).
// Chapter 06; Singh and Bhatele 2022.
#pragma once

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// When a cell ran. A measured timeline has no records of drops, which take no time, and of norms
/// of groups of one, which need no message.
struct Record {
  int rank = 0;
  Lane lane = Lane::compute;
  Instruction instruction;
  double start = 0, end = 0;  ///< seconds since the plan began
  std::int64_t bytes = 0;     ///< bytes that this rank sent
  double cpu = 0;  ///< measured computations: CPU time of the computing thread, in seconds
  int cell = -1;   ///< its place in the rank's row, in the order in which the row ran
};

struct Timeline {
  int ranks = 0;
  std::vector<Record> records;
  std::vector<std::vector<double>> bars = {};  ///< per rank: where the bodies of an endless plan
                                               ///< begin, and where the last one ends; or empty

  /// The end of the last record, in seconds.
  double makespan() const;
  /// Share of the ranks' time in which their compute lanes are idle:
  ///   1 - busy / (ranks * makespan)
  double bubble() const;
  std::int64_t bytes() const;  ///< bytes that all ranks sent
};

/// For each record of a send or receive, the record of its other end: the k-th send of a rank to
/// another meets the k-th receive there. -1: it has none, or its record is missing.
std::vector<int> other_ends(const Timeline& timeline);

/// Bytes of a category that are alive on a rank from time `seconds` on. Lists are in order of time.
struct MemorySample {
  int rank = 0;
  double seconds = 0;
  std::string category;
  std::int64_t bytes = 0;
};

// ---- message-driven rows ----

/// Between two steps a message-driven row has two lines of work: forwards, and backwards, each with
/// its messages. Each line runs in its order, so that sums are added in the order of microbatches
/// and messages meet, but one line may get ahead of the other. All other cells keep their places.
/// An instruction's value tells its line; a repeated forward (recomputation) is in its backward's.
class DrivenOrder {
 public:
  /// `row` must outlive it.
  DrivenOrder(const Plan& plan, const Row& row) : row_(row), limit_(plan.in_flight) {
    read_lines();
  }
  /// The cells that may be next; empty at the end: one message, drop or cell that keeps its place,
  /// or the computations that may run, of which the rank runs the first that can. The preferred one
  /// comes first: a backward frees memory, and lets the first stage begin another microbatch.
  std::vector<int> next() const;
  void ran(int cell);

 private:
  struct Line {
    std::vector<int> cells;
    std::size_t done = 0;
    bool at_end() const { return done == cells.size(); }
    int next() const { return cells[done]; }
  };

  void read_lines();
  bool may_run(const Line& line) const;

  const Row& row_;
  int end_ = 0;                // the first cell that keeps its place and has not run
  int limit_;                  // most microbatches in flight
  int in_flight_ = 0;          // forwards whose backwards have not run
  Line backwards_, forwards_;  // up to end_
};

/// The plan that ran: its rows have the order in which their cells ran.
///   orders: for each rank, the cells of its row in the order in which they ran
Plan plan_as_it_ran(const Plan& plan, const std::vector<std::vector<int>>& orders);

}  // namespace plangrad::parallel
