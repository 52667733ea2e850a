// The simulator: a graph of what waits for what, walked once. An event is a computation, or a
// message with all its ends: a send and its recv, a reduction on all members of its group.
// Not here: what an event costs (costs.cpp); which values it takes (arrivals.h).
// Chapter 06.
#include "parallel/simulation/simulate.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/arrivals.h"
#include "parallel/simulation/cell_order.h"
#include "parallel/verifier/pairing.h"
#include "parallel/verifier/shape.h"

namespace paragrad::parallel {
namespace {

/// Events are numbered by one of their cells; cells are counted over all rows.
class Simulation {
 public:
  explicit Simulation(const Plan& plan) : plan_(plan) {
    for (const Row& row : plan.rows) {
      row_begin_.push_back(size());
      for (const Instruction& x : row) cells_.push_back(&x);
    }
    event_.resize(cells_.size());
    std::iota(event_.begin(), event_.end(), 0);
    pending_.assign(cells_.size(), 0);
    first_edge_.assign(cells_.size(), -1);
    before_.assign(cells_.size(), -1);
    join_ends();
  }

  Events events() const { return {event_, before_}; }

  Timeline run(const Costs& costs) {
    const std::vector<int> versions = tied_versions(plan_);
    for (int rank = 0; rank < plan_.ranks(); ++rank) add_row(rank, versions);
    walk(costs);
    return timeline(costs);
  }

 private:
  int size() const { return static_cast<int>(cells_.size()); }

  template <class Visit>
  void for_each_cell(Visit visit) const {
    for (int rank = 0, cell = 0; rank < plan_.ranks(); ++rank)
      for (const Instruction& x : plan_.rows[rank]) visit(rank, cell++, x);
  }

  int rank_of(int cell) const {
    auto next = std::upper_bound(row_begin_.begin(), row_begin_.end(), cell);
    return static_cast<int>(next - row_begin_.begin()) - 1;
  }

  std::string show(int cell) const {
    const int rank = rank_of(cell);
    return '\n' + mark(plan_, rank, cell - row_begin_[rank]);
  }

  /// A send and its recv are one event, and so are the cells of a meeting. Messages of a channel,
  /// and meetings of a group, are first in, first out.
  void join_ends() {
    const Pairing pairing = pair_up(plan_);
    auto cell_of = [this](int rank, int index) { return row_begin_[rank] + index; };
    for (const Wire& wire : pairing.wires)
      for (std::size_t k = 0; k < wire.sends.size(); ++k) {
        const int send = cell_of(wire.from, wire.sends[k]);
        event_[cell_of(wire.to, wire.recvs[k])] = send;
        if (k > 0) follow(send, cell_of(wire.from, wire.sends[k - 1]));
      }
    std::vector<int> last(plan_.groups.size(), -1);
    for (const auto& [group, cells] : pairing.meetings) {
      const std::vector<int>& members = plan_.groups[group];
      const int event = cell_of(members[0], cells[0]);
      for (std::size_t i = 0; i < members.size(); ++i)
        event_[cell_of(members[i], cells[i])] = event;
      if (const int before = std::exchange(last[group], event); before >= 0) follow(event, before);
    }
  }

  void follow(int event, int before) {
    let_wait(event, before);
    before_[event] = before;
  }

  /// `event` begins when `earlier` has ended, or later.
  void let_wait(int event, int earlier) {
    edges_.push_back({event, first_edge_[earlier]});
    first_edge_[earlier] = static_cast<int>(edges_.size()) - 1;
    ++pending_[event];
  }

  // [snippet row]
  void add_row(int rank, const std::vector<int>& versions) {
    Arrivals arrivals(plan_, versions);
    int cell = row_begin_[rank], computation = -1;
    for (const Instruction& x : plan_.rows[rank]) {
      int event = event_[cell++];
      if (computation >= 0) let_wait(event, computation);
      for (int arrival : arrivals.inputs(x)) let_wait(event, arrival);
      arrivals.add(x, event);
      if (is_compute(x)) computation = event;
    }
  }
  // [end snippet]

  /// Visits every event after all that it waits for.
  void walk(const Costs& costs) {
    start_.assign(cells_.size(), 0);
    end_.assign(cells_.size(), 0);
    std::vector<int> ready;
    for (int cell = 0; cell < size(); ++cell)
      if (event_[cell] == cell && pending_[cell] == 0) ready.push_back(cell);
    while (!ready.empty()) {
      int event = ready.back();
      ready.pop_back();
      end_[event] = start_[event] + duration(*cells_[event], rank_of(event), plan_, costs);
      for (int e = first_edge_[event]; e >= 0; e = edges_[e].next) {
        int later = edges_[e].later;
        start_[later] = std::max(start_[later], end_[event]);
        if (--pending_[later] == 0) ready.push_back(later);
      }
    }
    for (int cell = 0; cell < size(); ++cell)
      PG_CHECK(pending_[event_[cell]] == 0, "simulate: the plan can't go on:", show(cell));
  }

  Timeline timeline(const Costs& costs) const {
    Timeline result{plan_.ranks(), {}};
    result.records.reserve(cells_.size());
    for_each_cell([&](int rank, int cell, const Instruction& x) {
      int event = event_[cell];
      result.records.push_back(
          {rank, operation(x).lane(), x, start_[event], end_[event], bytes_sent(x, plan_, costs)});
    });
    return result;
  }

  struct Edge {
    int later, next;  ///< the event that waits; the next edge from the same event, -1: none
  };

  const Plan& plan_;
  std::vector<const Instruction*> cells_;
  std::vector<int> row_begin_;  // by rank
  std::vector<int> event_;      // by cell
  std::vector<int> before_;     // by event; see Events
  std::vector<int> pending_;    // by event: for how many others it still waits
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
  const Plan rows = in_order(plan, costs, Simulation(plan).events());
  return Simulation(rows).run(costs);
}

}  // namespace paragrad::parallel
