// The simulator: a graph of what waits for what, walked once; a broken plan's as far as it goes.
// Not here: what an event is, and what it waits for (events.h); what it costs (costs.cpp).
// Chapter 06.
#include "parallel/simulation/simulate.h"

#include <algorithm>

#include "autograd/error.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/events.h"

namespace plangrad::parallel {
namespace {

constexpr int never = 1 << 28;  // more than an event can wait for

class Simulation {
 public:
  Simulation(const Plan& plan, const Pairing& pairing)
      : plan_(plan),
        events_(events_of(plan, pairing)),
        pending_(events_.size(), 0),
        first_edge_(events_.size(), -1),
        last_edge_(events_.size(), -1),
        cause_(events_.size(), -1),
        start_(events_.size(), 0),
        end_(events_.size(), 0) {
    for (int event = 0; event < events_.size(); ++event) {
      if (!events_.happens[event]) pending_[event] |= never;
      if (const int before = events_.before[event]; before >= 0) let_wait(event, before);
    }
    const std::vector<int> versions = tied_versions(plan);
    for (int rank = 0; rank < plan.ranks(); ++rank) add_row(rank, versions);
  }

  /// Lets a row run up to this cell only.
  void stop_before(int rank, int index) {
    for (int i = index; i < static_cast<int>(plan_.rows[rank].size()); ++i)
      pending_[events_.of[events_.row_begin[rank] + i]] |= never;
  }

  /// Visits every event after all that it waits for.
  void run(const Costs& costs) {
    std::vector<int> ready;
    for (int cell = 0; cell < events_.size(); ++cell)
      if (events_.of[cell] == cell && pending_[cell] == 0) ready.push_back(cell);
    while (!ready.empty()) {
      const int event = ready.back(), rank = events_.rank_of(event);
      ready.pop_back();
      end_[event] = start_[event] + duration(plan_, rank, event - events_.row_begin[rank], costs);
      for (int e = first_edge_[event]; e >= 0; e = edges_[e].next) {
        const int later = edges_[e].later;
        if (end_[event] >= start_[later]) start_[later] = end_[event], cause_[later] = event;
        if (--pending_[later] == 0) ready.push_back(later);
      }
    }
  }

  /// What has run, rank by rank.
  Timeline timeline(const Costs& costs) const {
    Timeline result{plan_.ranks(), {}};
    result.records.reserve(events_.size());
    for_each_cell([&](int rank, int index, int event, const Instruction& x) {
      if (has_run(event))
        result.records.push_back({rank, operation(x).lane(), x, start_[event], end_[event],
                                  bytes_sent(x, plan_, costs), 0, index});
    });
    return result;
  }

  void check_end() const {
    for_each_cell([&](int rank, int index, int event, const Instruction&) {
      PG_CHECK(has_run(event), "simulate: the plan blocks:\n", mark(plan_, rank, index));
    });
  }

  /// See PartialTimeline.
  std::vector<int> causes() const {
    std::vector<int> record(events_.size(), -1), result;  // by cell
    int count = 0;
    for (int cell = 0; cell < events_.size(); ++cell)
      if (has_run(events_.of[cell])) record[cell] = count++;
    for (int cell = 0; cell < events_.size(); ++cell) {
      const int cause = cause_[events_.of[cell]];
      if (record[cell] >= 0) result.push_back(cause < 0 ? -1 : record[cause]);
    }
    return result;
  }
  std::vector<int> stopped() const {
    std::vector<int> result(plan_.ranks(), -1);
    for_each_cell([&](int rank, int index, int event, const Instruction& x) {
      int& first = result[rank];
      if (has_run(event)) return;
      if (first < 0 || (is_compute(x) && !is_compute(plan_.rows[rank][first]))) first = index;
    });
    return result;
  }

 private:
  bool has_run(int event) const { return pending_[event] == 0; }

  template <class Visit>
  void for_each_cell(const Visit& visit) const {
    for (int rank = 0, cell = 0; rank < plan_.ranks(); ++rank)
      for (int index = 0; index < static_cast<int>(plan_.rows[rank].size()); ++index)
        visit(rank, index, events_.of[cell++], plan_.rows[rank][index]);
  }

  /// `event` begins when `earlier` has ended, or later.
  void let_wait(int event, int earlier) {
    const int edge = static_cast<int>(edges_.size());
    edges_.push_back({event, -1});
    (last_edge_[earlier] < 0 ? first_edge_[earlier] : edges_[last_edge_[earlier]].next) = edge;
    last_edge_[earlier] = edge;
    ++pending_[event];
  }

  // [snippet row]
  void add_row(int rank, const std::vector<int>& versions) {
    RowReader reader(plan_, versions);
    int cell = events_.row_begin[rank];
    for (const Instruction& x : plan_.rows[rank]) {
      const int event = events_.of[cell++];
      for (int earlier : reader.awaited(x))
        if (earlier != event) let_wait(event, earlier);
      reader.add(x, event);
    }
  }
  // [end snippet]

  struct Edge {
    int later, next;  ///< the event that waits; the next edge from the same event, -1: none
  };

  const Plan& plan_;
  const Events events_;
  std::vector<int> pending_;  // by event: how many others it still waits for
  std::vector<int> first_edge_, last_edge_;
  std::vector<Edge> edges_;
  std::vector<int> cause_;  // by event: the one that it waited for last
  std::vector<double> start_, end_;
};

}  // namespace

Timeline simulate(const VerifiedPlan& plan, const Costs& costs) {
  return simulate_unverified(plan.plan(), costs);
}

Timeline simulate_unverified(const Plan& plan, const Costs& costs) {
  check_shape(plan);
  check(costs, plan);
  if (plan.in_flight > 0) return simulate_unverified(in_order(plan, costs), costs);
  Simulation simulation(plan, pair_up(plan));
  simulation.run(costs);
  simulation.check_end();
  return simulation.timeline(costs);
}

PartialTimeline simulate_until_blocked(const Plan& plan, const Costs& costs, int rank, int index) {
  check_shape(plan);
  check(costs, plan);
  Simulation simulation(plan, pairs_in_order(plan));
  if (rank >= 0 && index >= 0) simulation.stop_before(rank, index);
  simulation.run(costs);
  return {simulation.timeline(costs), simulation.causes(), simulation.stopped()};
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

}  // namespace plangrad::parallel
