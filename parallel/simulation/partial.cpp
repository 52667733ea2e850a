// The simulator's walk of events that may never happen. What waits for one has no record.
// Chapter 06.
#include "parallel/simulation/partial.h"

#include "parallel/simulation/events.h"

namespace plangrad::parallel {
namespace {

/// For each record the one that it waited for last.
std::vector<int> causes_of(const Events& events, const EventTimes& times) {
  std::vector<int> record(events.size(), -1), causes;  // by cell; by record
  int count = 0;
  for (int cell = 0; cell < events.size(); ++cell)
    if (times.pending[events.of[cell]] == 0) record[cell] = count++;
  for (int cell = 0; cell < events.size(); ++cell) {
    const int cause = times.cause[events.of[cell]];
    if (record[cell] >= 0) causes.push_back(cause < 0 ? -1 : record[cause]);
  }
  return causes;
}

std::vector<int> stops_of(const Plan& plan, const Events& events, const EventTimes& times) {
  std::vector<int> stopped(plan.ranks(), -1);
  for (int rank = 0, cell = 0; rank < plan.ranks(); ++rank)
    for (int index = 0; index < static_cast<int>(plan.rows[rank].size()); ++index, ++cell) {
      if (times.pending[events.of[cell]] == 0) continue;
      const Row& row = plan.rows[rank];
      int& first = stopped[rank];
      if (first < 0 || (is_compute(row[index]) && !is_compute(row[first]))) first = index;
    }
  return stopped;
}

}  // namespace

PartialTimeline simulate_until_blocked(const Plan& plan, const Costs& costs, int rank, int index) {
  check_shape(plan);
  check(costs, plan);
  Events events = events_of(plan, pairs_in_order(plan));
  if (rank >= 0 && index >= 0)
    for (int i = index; i < static_cast<int>(plan.rows[rank].size()); ++i)
      events.happens[events.of[events.row_begin[rank] + i]] = false;
  const EventTimes times = run_events(plan, events, costs);
  return {timeline_of(plan, events, times, costs), causes_of(events, times),
          stops_of(plan, events, times)};
}

}  // namespace plangrad::parallel
