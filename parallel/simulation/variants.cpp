// A bar is drawn where its rank continues: at its next computation. In a broken plan, what waits
// for an event that never happens has no record. Chapters 06 and 07.
#include "parallel/simulation/variants.h"

#include "parallel/simulation/events.h"

namespace plangrad::parallel {
namespace {

/// The moments of three bars around two bodies, from a rank's records, one for each cell of its
/// row. A rank that computes nothing behind a bar stands there since its last computation.
std::vector<double> bar_moments(const std::vector<Record>& row, const Bars& bars) {
  std::vector<double> moments;
  const int length = bars.second - bars.first;
  for (int cell : {bars.first, bars.second, bars.second + length}) {
    double moment = 0;
    for (int i = 0; i < static_cast<int>(row.size()); ++i) {
      if (row[i].lane != Lane::compute) continue;
      moment = i < cell ? row[i].end : row[i].start;
      if (i >= cell) break;
    }
    moments.push_back(moment);
  }
  return moments;
}

double busy(const Timeline& timeline) {
  return (1 - timeline.bubble()) * timeline.ranks * timeline.makespan();
}

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
  auto event = events.of.begin();
  for_each_cell(plan, [&](int rank, int index, const Instruction& x) {
    if (times.pending[*event++] == 0) return;
    int& first = stopped[rank];
    if (first < 0 || (is_compute(x) && !is_compute(plan.rows[rank][first]))) first = index;
  });
  return stopped;
}

}  // namespace

Timeline simulate_two_bodies(const Plan& plan, const Costs& costs) {
  if (!plan.is_endless()) return simulate_unverified(plan, costs);
  check_shape(plan);
  const Plan two = unrolled(plan, 2);
  Timeline timeline = simulate_unverified(two, costs);
  auto record = timeline.records.begin();  // rank by rank
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    const auto end = record + static_cast<std::ptrdiff_t>(two.rows[rank].size());
    timeline.bars.push_back(bar_moments({record, end}, plan.bars[rank]));
    record = end;
  }
  return timeline;
}

SteadyState steady_state(const VerifiedPlan& plan, const Costs& costs) {
  const Timeline four = simulate_unverified(unrolled(plan.plan(), 4), costs);
  const Timeline five = simulate_unverified(unrolled(plan.plan(), 5), costs);
  const double body = five.makespan() - four.makespan();
  if (body <= 0) return {};
  const double idle = 1 - (busy(five) - busy(four)) / (five.ranks * body);
  return {body / plan.plan().period, idle > 1e-9 ? idle : 0};  // differences of sums are not exact
}

Timeline on_own_cores(const VerifiedPlan& verified, const Timeline& measured, Costs costs) {
  const Plan& plan = verified.plan();
  constexpr double unknown = -1;
  std::vector<std::vector<double>> seconds;  // by rank and cell
  for (const Row& row : plan.rows) seconds.emplace_back(row.size(), unknown);
  for (const Record& record : measured.records)
    if (record.lane == Lane::compute) seconds.at(record.rank).at(record.cell) = record.cpu;
  costs.computation = [&](const Instruction& x, int rank, int cell) {
    PG_CHECK(seconds[rank][cell] != unknown, "own cores: rank ", rank, " was not measured at ",
             print(x), "; give a timeline of this plan");
    return seconds[rank][cell];
  };
  return simulate(verified, costs);
}

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
