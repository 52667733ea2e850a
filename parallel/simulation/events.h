// Events of a plan, and which of them bring an instruction's inputs to its rank.
// Not here: when they happen (simulate.cpp, driven.cpp), whether a value exists at all (verify).
// Chapter 06.
#pragma once

#include <unordered_map>
#include <vector>

#include "parallel/plan/plan.h"

namespace plangrad::parallel {

/// An event is a computation, or a message with all its ends: a send and its recv, a reduction on
/// all members of its group. Cells are counted over all rows; an event is numbered by one of its
/// cells.
struct Events {
  std::vector<const Instruction*> cells;
  std::vector<int> row_begin;  ///< by rank: its first cell
  std::vector<int> of;         ///< by cell: its event
  std::vector<int> before;     ///< by event: the one before it on its channel, or in its group;
                               ///< -1: none

  int size() const { return static_cast<int>(cells.size()); }
  int rank_of(int cell) const;
};

/// The plan must outlive its events.
/// throws: Error if a message lacks an end
Events events_of(const Plan& plan);

/// Arrivals: the values that messages have brought to a rank, while its row is read from left to
/// right. Results of computations do not matter, as computations run in the row's order.
class Arrivals {
 public:
  /// tied_versions: see lifetimes.h. Both must outlive it.
  Arrivals(const Plan& plan, const std::vector<int>& tied_versions)
      : plan_(plan), tied_versions_(tied_versions) {}

  /// The events that bring the inputs of `x`.
  std::vector<int> inputs(const Instruction& x) const;

  /// Notes that `event` brings what `x` receives, reduces or gathers.
  void add(const Instruction& x, int event);

 private:
  void add_sum(const Name& sum, bool visits, int event);

  const Plan& plan_;
  const std::vector<int>& tied_versions_;
  std::unordered_map<Key, int> last_;                        // the event that brought a value last
  std::unordered_map<int, std::vector<int>> finished_sums_;  // by version: their events
};

}  // namespace plangrad::parallel
