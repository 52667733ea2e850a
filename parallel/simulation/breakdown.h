// Breakdown: where the time of a plan goes, from its timeline, measured or simulated; and the
// critical path, the chain of instructions that sets its length.
// Not here: which instruction waited for which (wait_graph.h), pictures (drawing/). Chapter 06.
#pragma once

#include <vector>

#include "parallel/plan/timeline.h"

namespace plangrad::parallel {

class WaitGraph;

/// Seconds of a rank's computing lane, each counted once. The last three are idle time: together
/// they are the bubble, as Timeline::bubble() measures it.
///
/// An idle rank waits for its next computation's last input. While the message that brings it is
/// under way, the time goes to the message. Before that, the time goes to what the message itself
/// waits for: a message before it in its queue or one that brings its value; or a computation, be
/// it of the sender or of a member of the group, and then the rank waits for that computation.
/// After its last computation a rank waits for the last value that comes to it from others.
struct TimeParts {
  double compute = 0;  ///< forwards and backwards
  double update = 0;   ///< the optimizer
  double waiting = 0;  ///< until another rank has computed the value; at the plan's beginning and
                       ///< end; after the input has come, until the computation begins
  double point_to_point = 0;  ///< while a send and receive is under way, or a fold
  double collective = 0;      ///< while a reduction, norm or gather is under way
  double forward = 0;         ///< the part of `compute` in forwards
  double other = 0;           ///< the part of `waiting` in which no other rank computes the value:
                              ///< after the input has come, and at the plan's end

  double total() const { return compute + update + waiting + point_to_point + collective; }
  TimeParts& operator+=(const TimeParts& more);
};

struct Breakdown {
  double makespan = 0;
  std::vector<TimeParts> ranks;  ///< the total of each is the makespan

  TimeParts all() const;  ///< the sum over ranks; its total is ranks * makespan
};

/// Divides the time of each rank.
/// throws: Error if the timeline is not of this plan; see WaitGraph
Breakdown breakdown(const Plan& plan, const Timeline& timeline);

/// Divides the idle time [from, to) of a rank before a cell that waits for `cause`, a cell of the
/// graph; none: for nothing.
TimeParts idle_parts(const WaitGraph& graph, int rank, int cause, double from, double to);

/// The chain of instructions that ends last, each preceded by the one that it waited for last. To
/// make the plan shorter, one of them has to become shorter.
struct CriticalPath {
  std::vector<int> records;  ///< places in the timeline, in the order of time
  TimeParts time;  ///< what the makespan goes to along the chain; waiting: nothing of it runs
  int computations = 0, messages = 0, collectives = 0;
  int ranks = 0;  ///< ranks that the chain visits
};

/// Follows the chain back from the instruction that ends last.
/// throws: Error if the timeline is not of this plan; see WaitGraph
CriticalPath critical_path(const Plan& plan, const Timeline& timeline);

}  // namespace plangrad::parallel
