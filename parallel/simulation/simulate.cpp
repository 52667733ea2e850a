// The simulator: a graph of what waits for what, walked once; it is the partial run that must end.
// Not here: what an event is, and what it waits for (events.h); what it costs (costs.cpp).
// Chapter 06.
#include "parallel/simulation/simulate.h"

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/events.h"

namespace plangrad::parallel {
namespace {

/// Walks the graph of a plan's events once.
class Walk {
 public:
  Walk(const Plan& plan, const Events& events)
      : plan_(plan),
        events_(events),
        first_edge_(events.size(), -1),
        last_edge_(events.size(), -1),
        result_{std::vector<int>(events.size(), 0), std::vector<int>(events.size(), -1),
                std::vector<double>(events.size(), 0), std::vector<double>(events.size(), 0)} {
    for (int event = 0; event < events.size(); ++event)
      if (const int before = events.before[event]; before >= 0) let_wait(event, before);
    const std::vector<int> versions = tied_versions(plan);
    for (int rank = 0; rank < plan.ranks(); ++rank) add_row(rank, versions);
  }

  /// Visits every event after all that it waits for; those that never happen, and what waits for
  /// them, stay pending.
  EventTimes run(const Costs& costs) const {
    EventTimes result = result_;
    auto& [pending, cause, start, end] = result;
    Ends ends(plan_, events_, costs);
    for (int event = 0; event < events_.size(); ++event) {
      if (!events_.happens[event]) ++pending[event];
      if (events_.of[event] == event && pending[event] == 0) ends.begin(event, 0);
    }
    while (const auto ended = ends.next()) {
      const auto [event, time] = *ended;
      end[event] = time;
      for (int e = first_edge_[event]; e >= 0; e = edges_[e].next) {
        const int later = edges_[e].later;
        if (time >= start[later]) start[later] = time, cause[later] = event;
        if (--pending[later] == 0) ends.begin(later, start[later]);
      }
    }
    return result;
  }

 private:
  /// `event` begins when `earlier` has ended, or later.
  void let_wait(int event, int earlier) {
    const int edge = static_cast<int>(edges_.size());
    edges_.push_back({event, -1});
    (last_edge_[earlier] < 0 ? first_edge_[earlier] : edges_[last_edge_[earlier]].next) = edge;
    last_edge_[earlier] = edge;
    ++result_.pending[event];
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
  const Events& events_;
  std::vector<int> first_edge_, last_edge_;  // by event
  std::vector<Edge> edges_;
  EventTimes result_;
};

}  // namespace

EventTimes run_events(const Plan& plan, const Events& events, const Costs& costs) {
  return Walk(plan, events).run(costs);
}

Timeline timeline_of(const Plan& plan, const Events& events, const EventTimes& times,
                     const Costs& costs) {
  Timeline result{plan.ranks(), {}};
  result.records.reserve(events.size());
  auto next = events.of.begin();
  for_each_cell(plan, [&](int rank, int index, const Instruction& x) {
    const int event = *next++;
    if (times.pending[event] == 0)
      result.records.push_back({rank, operation(x).lane(), x, times.start[event], times.end[event],
                                bytes_sent(x, rank, plan, costs), 0, index});
  });
  return result;
}

Timeline simulate(const VerifiedPlan& plan, const Costs& costs) {
  return simulate_unverified(plan.plan(), costs);
}

struct Simulation::Graph {
  explicit Graph(Plan of) : plan(std::move(of)), events(events_of(plan, pair_up(plan))) {}
  const Plan plan;
  const Events events;
  const Walk walk{plan, events};
};

Simulation::Simulation(Plan plan) {
  check_shape(plan);
  graph_ = std::make_unique<const Graph>(std::move(plan));
}
Simulation::~Simulation() = default;

const Plan& Simulation::plan() const { return graph_->plan; }

EventTimes Simulation::times(const Costs& costs) const {
  const auto& [plan, events, walk] = *graph_;
  check(costs, plan);
  EventTimes times = walk.run(costs);
  for (int cell = 0; cell < events.size(); ++cell)
    PG_CHECK(times.pending[events.of[cell]] == 0, "simulate: the plan blocks:\n",
             mark(plan, events.rank_of(cell), events.index_of(cell)));
  return times;
}

Timeline Simulation::timeline(const EventTimes& times, const Costs& costs) const {
  return timeline_of(graph_->plan, graph_->events, times, costs);
}

Timeline simulate_unverified(const Plan& plan, const Costs& costs) {
  check_shape(plan);
  check(costs, plan);
  const Simulation simulation(in_order(plan, costs));
  return simulation.timeline(simulation.times(costs), costs);
}

}  // namespace plangrad::parallel
