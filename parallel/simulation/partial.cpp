// The simulator's graph, built without the promises of a verified plan: a message may lack an end,
// and a cell may wait for ever. What never becomes ready has no record.
// Chapter 06.
#include "parallel/simulation/partial.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "parallel/plan/lifetimes.h"
#include "parallel/simulation/events.h"
#include "parallel/verifier/rules.h"

namespace plangrad::parallel {
namespace {

constexpr int never = 1 << 28;  // more than a cell can wait for

/// Whether two cells name the same value.
bool are_ends(const Instruction& a, const Instruction& b) {
  return a.what == b.what && a.stage == b.stage && a.micro == b.micro && a.version == b.version;
}

class PartialRun {
 public:
  PartialRun(const Plan& plan, int rank, int index) : plan_(plan) {
    for (const Row& row : plan.rows) {
      row_begin_.push_back(size());
      for (const Instruction& x : row) cells_.push_back(&x);
    }
    event_.resize(size());
    std::iota(event_.begin(), event_.end(), 0);
    pending_.assign(size(), 0);
    start_.assign(size(), 0);
    end_.assign(size(), 0);
    cause_.assign(size(), -1);
    later_.resize(size());
    pair_messages();
    pair_meetings();
    const std::vector<int> versions = tied_versions(plan);
    for (int each = 0; each < plan.ranks(); ++each) add_row(each, versions);
    if (rank >= 0 && index >= 0)
      for (int cell = row_begin_[rank] + index; cell < row_end(rank); ++cell)
        pending_[event_[cell]] |= never;
  }

  PartialTimeline run(const Costs& costs) {
    std::vector<int> ready;
    for (int cell = 0; cell < size(); ++cell)
      if (event_[cell] == cell && pending_[cell] == 0) ready.push_back(cell);
    while (!ready.empty()) {
      const int event = ready.back();
      ready.pop_back();
      end_[event] = start_[event] + duration(*cells_[event], rank_of(event), plan_, costs);
      for (int later : later_[event]) {
        if (end_[event] >= start_[later]) start_[later] = end_[event], cause_[later] = event;
        if (--pending_[later] == 0) ready.push_back(later);
      }
    }
    return records(costs);
  }

 private:
  int size() const { return static_cast<int>(cells_.size()); }
  int row_end(int rank) const {
    return row_begin_[rank] + static_cast<int>(plan_.rows[rank].size());
  }
  int rank_of(int cell) const {
    const auto next = std::ranges::upper_bound(row_begin_, cell);
    return static_cast<int>(next - row_begin_.begin()) - 1;
  }
  void let_wait(int event, int earlier) {
    later_[earlier].push_back(event);
    ++pending_[event];
  }

  /// Joins the ends of a message to one event; it waits for the message before it on its channel.
  void pair_messages() {
    std::map<std::pair<int, int>, std::pair<std::vector<int>, std::vector<int>>> channels;
    for (int rank = 0; rank < plan_.ranks(); ++rank)
      for (int cell = row_begin_[rank]; cell < row_end(rank); ++cell) {
        const Instruction& x = *cells_[cell];
        if (sends(x)) channels[{rank, x.peer}].first.push_back(cell);
        if (receives(x)) channels[{x.peer, rank}].second.push_back(cell);
      }
    for (const auto& [ends, cells] : channels) {
      const auto& [sent, received] = cells;
      for (std::size_t k = 0; k < std::max(sent.size(), received.size()); ++k) {
        if (k >= sent.size()) {
          pending_[received[k]] |= never;
        } else {
          if (k > 0) let_wait(sent[k], sent[k - 1]);
          if (k < received.size()) event_[received[k]] = sent[k];
          if (k >= received.size() || !are_ends(*cells_[sent[k]], *cells_[received[k]]))
            pending_[sent[k]] |= never;
        }
      }
    }
  }

  void pair_meetings() {
    for (int group = 0; group < static_cast<int>(plan_.groups.size()); ++group) {
      std::vector<std::vector<int>> met;  // by meeting: its cells
      for (int rank : plan_.groups[group]) {
        std::size_t k = 0;
        for (int cell = row_begin_[rank]; cell < row_end(rank); ++cell)
          if (meets(*cells_[cell]) && cells_[cell]->peer == group) {
            if (k == met.size()) met.emplace_back();
            met[k++].push_back(cell);
          }
      }
      for (std::size_t k = 0; k < met.size(); ++k) {
        const int event = met[k].front();
        for (int cell : met[k]) event_[cell] = event;
        if (k > 0) let_wait(event, met[k - 1].front());
        const auto is_other = [&](int cell) {
          return cells_[cell]->op != cells_[event]->op || !are_ends(*cells_[cell], *cells_[event]);
        };
        if (met[k].size() < plan_.groups[group].size() || std::ranges::any_of(met[k], is_other))
          pending_[event] |= never;
      }
    }
  }

  /// Lets each cell wait for the computation before it and for what brings its inputs; `carried`
  /// is what a row has waited for, so that it goes on waiting where the verifier would stop.
  void add_row(int rank, const std::vector<int>& versions) {
    Arrivals arrivals(plan_, versions);
    int computation = -1;
    for (int cell = row_begin_[rank]; cell < row_end(rank); ++cell) {
      const Instruction& x = *cells_[cell];
      const int event = event_[cell];
      if (computation >= 0) let_wait(event, computation);
      for (int arrival : arrivals.inputs(x))
        if (arrival != event) let_wait(event, arrival);
      arrivals.add(x, event);
      if (is_compute(x)) computation = event;
    }
  }

  PartialTimeline records(const Costs& costs) const {
    PartialTimeline result{{plan_.ranks(), {}}, {}, {}};
    std::vector<int> record(size(), -1);  // by cell
    for (int rank = 0; rank < plan_.ranks(); ++rank) {
      int stopped = -1;
      for (int cell = row_begin_[rank]; cell < row_end(rank); ++cell) {
        const Instruction& x = *cells_[cell];
        const int event = event_[cell], index = cell - row_begin_[rank];
        if (pending_[event] > 0) {
          const bool is_first = stopped < 0;
          const bool computes = is_compute(x);
          if (is_first || (computes && !is_compute(plan_.rows[rank][stopped]))) stopped = index;
          continue;
        }
        record[cell] = static_cast<int>(result.timeline.records.size());
        result.timeline.records.push_back({rank, operation(x).lane(), x, start_[event], end_[event],
                                           bytes_sent(x, plan_, costs), 0, index});
      }
      result.stopped.push_back(stopped);
    }
    for (int cell = 0; cell < size(); ++cell)
      if (record[cell] >= 0) {
        const int cause = cause_[event_[cell]];
        result.causes.push_back(cause < 0 ? -1 : record[cause]);
      }
    return result;
  }

  const Plan& plan_;
  std::vector<const Instruction*> cells_;  // counted over all rows
  std::vector<int> row_begin_, event_;     // by rank; by cell: one of its event's cells
  std::vector<int> pending_, cause_;       // by event
  std::vector<double> start_, end_;
  std::vector<std::vector<int>> later_;  // by event: those that wait for it
};

}  // namespace

PartialTimeline simulate_until_blocked(const Plan& plan, const Costs& costs, int rank, int index) {
  check_shape(plan);
  check(costs, plan);
  return PartialRun(plan, rank, index).run(costs);
}

}  // namespace plangrad::parallel
