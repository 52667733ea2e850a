// What waits for what in a plan: events, what the cells of a rank wait for, and when events end.
// Used by the simulator, message-driven plans, broken plans, and explanations of idle time.
// Not here: when events happen (simulate.cpp), what a value is (plan/operations.h). Chapter 06.
#pragma once

#include <optional>
#include <tuple>
#include <unordered_map>

#include "parallel/plan/timeline.h"
#include "parallel/simulation/costs.h"
#include "parallel/verifier/rules.h"

namespace plangrad::parallel {

class MeetingRun;  // meetings.cpp
class Traffic;     // links.h

/// An event is a computation, or a message with all its ends: a send and its recv, a reduction on
/// all members of its group. Cells are counted over all rows; an event has the number of one cell.
struct Events {
  std::vector<const Instruction*> cells;
  std::vector<int> row_begin;  ///< the first cell of each rank
  std::vector<int> of;         ///< the event of each cell
  std::vector<int> before;     ///< the event before each on its channel, or in its group, for
                               ///< which it waits; -1: none
  std::vector<bool> happens;   ///< whether all ends of an event are there, and have one name

  int size() const { return static_cast<int>(cells.size()); }
  int rank_of(int cell) const;
  /// A cell's place in its row.
  int index_of(int cell) const { return cell - row_begin[rank_of(cell)]; }
};

/// Joins the ends that a pairing of the plan names. The plan must outlive its events.
Events events_of(const Plan& plan, const Pairing& pairing);

/// When each event happens. Lists are by event.
struct EventTimes {
  std::vector<int> pending;  ///< how many others it waits for that never happen; 0: it happens
  std::vector<int> cause;    ///< the event that it waited for last; -1: none
  std::vector<double> start, end;
};
EventTimes run_events(const Plan& plan, const Events& events, const Costs& costs);

/// When a plan's events end. Messages and meetings on a topology end when its links let them, which
/// depends on what else begins until then.
class Ends {
 public:
  /// All must outlive it.
  Ends(const Plan& plan, const Events& events, const Costs& costs);
  ~Ends();

  /// An event begins at `start`. On a topology this is not before the end that next() told last.
  void begin(int event, double start);
  /// An event that ends, and when; none: nothing is left that began. On a topology, messages end in
  /// order of time.
  std::optional<std::pair<int, double>> next();
  /// The end of an event that begins at `start` while nothing else uses its links.
  double alone(int event, double start);

 private:
  std::optional<double> end_of(int event, double start);
  std::optional<std::pair<int, double>> arrived(double until);

  const Plan& plan_;
  const Events& events_;
  const Costs& costs_;
  std::vector<std::pair<double, int>> waiting_;          // start and event: on a topology a heap
  std::unique_ptr<Traffic> traffic_;                     // null: there is no topology
  std::map<int, std::unique_ptr<MeetingRun>> meetings_;  // by event
  std::map<std::tuple<Op, Value, int, int>, double> seconds_;  // of meetings that are alone
};

/// The records of the events that happen, rank by rank, in the order of the rows.
Timeline timeline_of(const Plan& plan, const Events& events, const EventTimes& times,
                     const Costs& costs);

/// RowReader: what each cell of a rank's row waits for, while the row is read in the order in which
/// it runs: the computation before it, and the messages that bring its inputs. The results of other
/// computations are there, as computations run in this order.
class RowReader {
 public:
  /// tied_versions: see lifetimes.h. Both must outlive it.
  RowReader(const Plan& plan, const std::vector<int>& tied_versions)
      : plan_(plan), tied_versions_(tied_versions) {}

  /// The events that `x` waits for if it is next.
  std::vector<int> awaited(const Instruction& x) const;
  /// Reads on: `event` computes `x`, or brings what it receives, reduces or gathers.
  void add(const Instruction& x, int event);

 private:
  void add_sum(const Name& sum, bool visits, int event);

  const Plan& plan_;
  const std::vector<int>& tied_versions_;
  int computation_ = -1;                                     // the last one; -1: none
  std::unordered_map<Key, int> last_;                        // the event that brought a value last
  std::unordered_map<int, std::vector<int>> finished_sums_;  // by version: their events
};

}  // namespace plangrad::parallel
