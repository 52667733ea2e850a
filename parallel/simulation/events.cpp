// Messages of a channel, and meetings of a group, are first in, first out. The order in which a
// message-driven plan runs follows from its events by the simulator's clock.
// Not here: what an instruction needs and makes (plan/operations.h), which cells of a
// message-driven row may be next (plan/timeline.h), and a plan's timeline, which follows from any
// order (simulate.cpp). Chapter 06; Singh and Bhatele 2022.
#include "parallel/simulation/events.h"

#include <numeric>

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

int Events::rank_of(int cell) const {
  auto next = std::upper_bound(row_begin.begin(), row_begin.end(), cell);
  return static_cast<int>(next - row_begin.begin()) - 1;
}

Events events_of(const Plan& plan, const Pairing& pairing) {
  Events events;
  for (const Row& row : plan.rows) {
    events.row_begin.push_back(events.size());
    for (const Instruction& x : row) events.cells.push_back(&x);
  }
  events.of.resize(events.size());
  std::iota(events.of.begin(), events.of.end(), 0);
  events.before.assign(events.size(), -1);
  events.happens.assign(events.size(), true);

  auto cell_of = [&](int rank, int index) { return events.row_begin[rank] + index; };
  auto are_ends = [&](int a, int b) {
    return events.cells[a]->op == events.cells[b]->op &&
           have_same_name(*events.cells[a], *events.cells[b]);
  };
  for (const auto& [from, to, sends, recvs] : pairing.wires) {
    for (std::size_t k = 0; k < sends.size(); ++k) {
      const int send = cell_of(from, sends[k]);
      const bool is_received = k < recvs.size();
      if (is_received) events.of[cell_of(to, recvs[k])] = send;
      if (k > 0) events.before[send] = cell_of(from, sends[k - 1]);
      events.happens[send] =
          is_received && have_same_name(*events.cells[send], plan.rows[to][recvs[k]]);
    }
    for (std::size_t k = sends.size(); k < recvs.size(); ++k)
      events.happens[cell_of(to, recvs[k])] = false;
  }
  std::vector<int> last(plan.groups.size(), -1);
  for (const auto& [group, guide, cells] : pairing.meetings) {
    const std::vector<int>& members = plan.groups[group];
    int event = -1;
    for (std::size_t i = 0; i < members.size(); ++i) {
      if (cells[i] < 0) continue;
      const int cell = cell_of(members[i], cells[i]);
      if (event < 0) event = cell;
      events.of[cell] = event;
      if (!are_ends(cell, event)) events.happens[event] = false;
    }
    if (std::ranges::count(cells, -1) > 0) events.happens[event] = false;
    events.before[event] = std::exchange(last[group], event);
  }
  return events;
}

std::vector<int> RowReader::awaited(const Instruction& x) const {
  std::vector<int> events;
  if (computation_ >= 0) events.push_back(computation_);
  for (const Name& name : needs(plan_, tied_versions_, x))
    if (auto found = last_.find(key(name)); found != last_.end()) events.push_back(found->second);
  if (x.what == Value::norm)
    if (auto sums = finished_sums_.find(x.version); sums != finished_sums_.end())
      events.insert(events.end(), sums->second.begin(), sums->second.end());
  return events;
}

/// Notes that an event brings a sum. A norm counts a sum on the rank that finished it, or at its
/// home, not on ranks that it visits. While microbatches are missing, a sum is open.
void RowReader::add_sum(const Name& sum, bool visits, int event) {
  last_[key(sum)] = event;
  const int version = plan_.made_by(sum.number);
  if (sum.number != plan_.last_micro_of(version))
    last_[key(Value::open_sum, sum.stage, version)] = event;
  else if (!visits)
    finished_sums_[version].push_back(event);
}

void RowReader::add(const Instruction& x, int event) {
  if (is_compute(x)) {
    computation_ = event;
    return;
  }
  for (const Name& name : makes(plan_, x))
    if (name.what == Value::gradient_sum)
      add_sum(name, receives(x) && plan_.home.empty(), event);
    else
      last_[key(name)] = event;
}

// ---- the order of message-driven plans ----

namespace {

constexpr double unknown = std::numeric_limits<double>::infinity();

/// The order in which a message-driven plan runs at given costs. The line of work that a rank
/// continues depends on what has arrived, so times and order are found together.
/// The computation that can begin first, on any rank, always runs next: cells that have not run yet
/// can't bring a message before that. Messages that share links do not delay each other here; they
/// do when the order that was found is simulated.
class DrivenSimulation {
 public:
  DrivenSimulation(const Plan& plan, const Costs& costs)
      : events_(events_of(plan, pair_up(plan))),
        ends_(plan, events_, costs),
        tied_versions_(tied_versions(plan)),
        missing_(events_.size(), 0),
        waits_(events_.size()),
        end_(events_.size(), unknown) {
    for (int event : events_.of) ++missing_[event];
    for (int rank = 0; rank < plan.ranks(); ++rank)
      ranks_.push_back({plan.rows[rank], events_.row_begin[rank],
                        DrivenOrder(plan, plan.rows[rank]), RowReader(plan, tied_versions_)});
  }

  /// For each rank, the cells of its row in the order in which they run; not all, if it blocks.
  std::vector<std::vector<int>> run() {
    for (Rank& rank : ranks_) enter_messages(rank);
    for (Choice next = earliest(); next.rank; next = earliest()) {
      enter(*next.rank, next.cell);
      enter_messages(*next.rank);
    }
    std::vector<std::vector<int>> orders;
    for (Rank& rank : ranks_) orders.push_back(std::move(rank.cells));
    return orders;
  }

 private:
  struct Rank {
    const Row& row;
    int begin;  // the number of its first cell, counted over all rows
    DrivenOrder order;
    RowReader reader;
    std::vector<int> cells{};  // in the order in which they ran
  };
  struct Choice {
    Rank* rank = nullptr;
    int cell = 0;
    double start = unknown;
  };

  /// The computation that can begin first; among equals on one rank, DrivenOrder's first.
  Choice earliest() {
    Choice best;
    for (Rank& rank : ranks_)
      for (int cell : rank.order.next())
        if (double start = latest(rank.reader.awaited(rank.row[cell])); start < best.start)
          best = {&rank, cell, start};
    return best;
  }

  /// Enters a rank's messages up to its next computation or drop.
  void enter_messages(Rank& rank) {
    for (auto cells = rank.order.next(); cells.size() == 1; cells = rank.order.next()) {
      if (is_compute(rank.row[cells[0]])) return;
      enter(rank, cells[0]);
    }
  }

  void enter(Rank& rank, int cell) {
    const Instruction& x = rank.row[cell];
    const int event = events_.of[rank.begin + cell];
    for (int earlier : rank.reader.awaited(x)) waits_[event].push_back(earlier);
    --missing_[event];
    rank.reader.add(x, event);
    rank.order.ran(cell);
    rank.cells.push_back(cell);
  }

  double latest(const std::vector<int>& events) {
    double time = 0;
    for (int event : events) time = std::max(time, end(event));
    return time;
  }

  /// The time in seconds at which an event ends; unknown until all its ranks have come to it.
  double end(int event) {
    if (end_[event] != unknown || missing_[event] > 0) return end_[event];
    double start = latest(waits_[event]);
    if (events_.before[event] >= 0) start = std::max(start, end(events_.before[event]));
    if (start == unknown) return unknown;
    return end_[event] = ends_.alone(event, start);
  }

  const Events events_;
  Ends ends_;
  const std::vector<int> tied_versions_;
  std::vector<Rank> ranks_;
  std::vector<int> missing_;             // by event: number of ranks that have not come to it
  std::vector<std::vector<int>> waits_;  // by event: the events that it waits for
  std::vector<double> end_;              // by event: seconds
};

}  // namespace

Plan in_order(const Plan& plan, const Costs& costs) {
  return plan.in_flight > 0 ? plan_as_it_ran(plan, DrivenSimulation(plan, costs).run()) : plan;
}

}  // namespace plangrad::parallel
