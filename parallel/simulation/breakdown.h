// Where the time of a plan goes, from its timeline, measured or simulated: what waited for what, a
// breakdown of each rank's time, and the critical path, the chain that sets the plan's length.
// Not here: what waits for what in a plan (events.h), pictures (drawing/). Chapter 06.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "parallel/simulation/events.h"

namespace plangrad::parallel {

/// A timeline, measured or simulated, laid over the cells of its plan. Cells are counted over all
/// rows, as in Events. A measured timeline lacks drops, which take no time, and the norms of groups
/// of one, which need no message: what such a cell waits for counts as awaited by the cells behind
/// it, up to the rank's next computation. Drops of a simulated timeline are taken in the same way.
class WaitGraph {
 public:
  static constexpr int none = -1;

  /// `timeline` must outlive it. The rows of a message-driven plan are taken in the order in which
  /// they ran: a simulated timeline has it; plan_as_it_ran() makes a plan of it for a measured one.
  /// throws: Error if the timeline lacks an instruction of the plan, or has another
  WaitGraph(const Plan& plan, const Timeline& timeline);
  WaitGraph(const WaitGraph&) = delete;  // events point into the plan

  int ranks() const { return plan_.ranks(); }
  /// The cells of a rank's computations in the order in which they ran.
  const std::vector<int>& computations(int rank) const { return computations_.at(rank); }
  /// The cell of a rank that brings it a value from others (a receive, reduction, norm or gather)
  /// and ends last; none: nothing comes from others.
  int last_arrival(int rank) const;
  /// The cell that ends last; among equals the first rank's last one; none: the timeline is empty.
  int last() const;

  const Instruction& instruction(int cell) const { return *events_.cells.at(cell); }
  int rank(int cell) const { return events_.rank_of(cell); }
  /// The record of a cell that one of these functions returned, by its place in the timeline.
  int record(int cell) const { return record_.at(cell); }
  /// The seconds at which a cell's part of an event ends at its rank.
  double end(int cell) const { return timeline_.records.at(record_.at(cell)).end; }
  /// The seconds at which a computation begins. A message begins when all its ends are issued, have
  /// what they need, and the messages before it in their queues have ended.
  double begin(int cell) const;
  /// The cell that a cell waited for last: the computation before it in its row, a message that
  /// brought an input, or the message before it in its queue. For a message, what any of its ends
  /// waited for. Among equals a computation; none: nothing stands before it.
  int cause(int cell) const;

 private:
  void match_records();
  void add_row(int rank, const std::vector<int>& tied_versions);
  void add_queues();

  const Plan plan_;
  const Timeline& timeline_;
  const Events events_;
  std::vector<std::vector<int>> ends_;          // by event: its cells
  std::vector<std::vector<int>> awaited_;       // by cell: cells of the same rank
  std::vector<int> record_;                     // by cell; none: a drop, or a norm of one
  std::vector<std::vector<int>> computations_;  // by rank
};

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
  void add(const TimeParts& more, double times = 1);
};

/// A part of a rank's time: its key in JSON, its name for people, and its seconds.
struct NamedPart {
  const char *key, *name;
  double TimeParts::*seconds;
};
/// The parts that make up the total, in the order in which they are shown.
inline constexpr NamedPart named_parts[] = {
    {"compute", "compute", &TimeParts::compute},
    {"update", "update", &TimeParts::update},
    {"waiting", "waiting", &TimeParts::waiting},
    {"point_to_point", "point-to-point", &TimeParts::point_to_point},
    {"collective", "collectives", &TimeParts::collective}};

struct Breakdown {
  double makespan = 0;
  std::vector<TimeParts> ranks;  ///< the total of each is the makespan

  TimeParts all() const;  ///< the sum over ranks; its total is ranks * makespan
};

/// Divides the time of each rank.
/// throws: Error if the timeline is not of this plan; see WaitGraph
Breakdown breakdown(const Plan& plan, const Timeline& timeline);
/// Seconds by part, of all ranks and of each.
nlohmann::json to_json(const Breakdown& breakdown);

/// Divides the idle time [from, to) of a rank, which waits for `cell` of the graph; none: for
/// nothing. Adds it to `parts`.
void divide_idle(const WaitGraph& graph, int rank, int cell, double from, double to,
                 TimeParts& parts);

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
