// The simulator: a graph of what waits for what, walked once.
// Not here: what an event is, and which values it takes (events.h); what it costs (costs.cpp).
// Chapter 06.
#include "parallel/simulation/simulate.h"

#include <algorithm>

#include "autograd/error.h"
#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/events.h"
#include "parallel/verifier/rules.h"

namespace plangrad::parallel {
namespace {

class Simulation {
 public:
  explicit Simulation(const Plan& plan)
      : plan_(plan),
        events_(events_of(plan)),
        pending_(events_.size(), 0),
        first_edge_(events_.size(), -1),
        start_(events_.size(), 0),
        end_(events_.size(), 0) {
    for (int event = 0; event < events_.size(); ++event)
      if (const int before = events_.before[event]; before >= 0) let_wait(event, before);
    const std::vector<int> versions = tied_versions(plan);
    for (int rank = 0; rank < plan.ranks(); ++rank) add_row(rank, versions);
  }

  /// Visits every event after all that it waits for.
  Timeline run(const Costs& costs) {
    std::vector<int> ready;
    for (int cell = 0; cell < events_.size(); ++cell)
      if (events_.of[cell] == cell && pending_[cell] == 0) ready.push_back(cell);
    while (!ready.empty()) {
      const int event = ready.back(), rank = events_.rank_of(event);
      ready.pop_back();
      end_[event] = start_[event] + duration(plan_, rank, event - events_.row_begin[rank], costs);
      for (int e = first_edge_[event]; e >= 0; e = edges_[e].next) {
        int later = edges_[e].later;
        start_[later] = std::max(start_[later], end_[event]);
        if (--pending_[later] == 0) ready.push_back(later);
      }
    }
    return timeline(costs);
  }

 private:
  /// `event` begins when `earlier` has ended, or later.
  void let_wait(int event, int earlier) {
    edges_.push_back({event, first_edge_[earlier]});
    first_edge_[earlier] = static_cast<int>(edges_.size()) - 1;
    ++pending_[event];
  }

  // [snippet row]
  void add_row(int rank, const std::vector<int>& versions) {
    Arrivals arrivals(plan_, versions);
    int cell = events_.row_begin[rank], computation = -1;
    for (const Instruction& x : plan_.rows[rank]) {
      int event = events_.of[cell++];
      if (computation >= 0) let_wait(event, computation);
      for (int arrival : arrivals.inputs(x)) let_wait(event, arrival);
      arrivals.add(x, event);
      if (is_compute(x)) computation = event;
    }
  }
  // [end snippet]

  Timeline timeline(const Costs& costs) const {
    Timeline result{plan_.ranks(), {}};
    result.records.reserve(events_.size());
    int cell = 0;
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      for (const Instruction& x : plan_.rows[rank]) {
        const int event = events_.of[cell], index = cell++ - events_.row_begin[rank];
        PG_CHECK(pending_[event] == 0, "simulate: the plan blocks:\n", mark(plan_, rank, index));
        result.records.push_back({rank, operation(x).lane(), x, start_[event], end_[event],
                                  bytes_sent(x, plan_, costs), 0, index});
      }
    return result;
  }

  struct Edge {
    int later, next;  ///< the event that waits; the next edge from the same event, -1: none
  };

  const Plan& plan_;
  const Events events_;
  std::vector<int> pending_;  // by event: how many others it still waits for
  std::vector<int> first_edge_;
  std::vector<Edge> edges_;
  std::vector<double> start_, end_;
};

}  // namespace

Timeline simulate(const VerifiedPlan& plan, const Costs& costs) {
  return simulate_unverified(plan.plan(), costs);
}

Timeline simulate_unverified(const Plan& plan, const Costs& costs) {
  check_shape(plan);
  check(costs, plan);
  if (plan.in_flight == 0) return Simulation(plan).run(costs);
  const Plan rows = in_order(plan, costs);
  return Simulation(rows).run(costs);
}

}  // namespace plangrad::parallel
