// Messages of a channel, and meetings of a group, are first in, first out.
// Not here: what an instruction needs and makes (plan/operations.h).
// Chapter 06.
#include "parallel/simulation/events.h"

#include <algorithm>
#include <numeric>
#include <utility>

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

}  // namespace plangrad::parallel
