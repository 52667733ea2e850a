// Joins the ends of messages to events: messages of a channel, and meetings of a group, are first
// in, first out. Not here: what an instruction needs and makes (plan/operations.h).
// Chapter 06.
#include "parallel/simulation/events.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "parallel/verifier/rules.h"

namespace plangrad::parallel {

int Events::rank_of(int cell) const {
  auto next = std::upper_bound(row_begin.begin(), row_begin.end(), cell);
  return static_cast<int>(next - row_begin.begin()) - 1;
}

Events events_of(const Plan& plan) {
  Events events;
  for (const Row& row : plan.rows) {
    events.row_begin.push_back(events.size());
    for (const Instruction& x : row) events.cells.push_back(&x);
  }
  events.of.resize(events.size());
  std::iota(events.of.begin(), events.of.end(), 0);
  events.before.assign(events.size(), -1);

  const Pairing pairing = pair_up(plan);
  auto cell_of = [&](int rank, int index) { return events.row_begin[rank] + index; };
  for (const Wire& wire : pairing.wires)
    for (std::size_t k = 0; k < wire.sends.size(); ++k) {
      const int send = cell_of(wire.from, wire.sends[k]);
      events.of[cell_of(wire.to, wire.recvs[k])] = send;
      if (k > 0) events.before[send] = cell_of(wire.from, wire.sends[k - 1]);
    }
  std::vector<int> last(plan.groups.size(), -1);
  for (const auto& [group, cells] : pairing.meetings) {
    const std::vector<int>& members = plan.groups[group];
    const int event = cell_of(members[0], cells[0]);
    for (std::size_t i = 0; i < members.size(); ++i)
      events.of[cell_of(members[i], cells[i])] = event;
    events.before[event] = std::exchange(last[group], event);
  }
  return events;
}

std::vector<int> Arrivals::inputs(const Instruction& x) const {
  std::vector<int> events;
  for (const Name& name : needs(plan_, tied_versions_, x))
    if (auto found = last_.find(key(name)); found != last_.end()) events.push_back(found->second);
  if (x.what != Value::norm) return events;
  auto sums = finished_sums_.find(x.version);
  return sums == finished_sums_.end() ? events : sums->second;
}

/// Notes that an event brings a sum. A norm counts a sum on the rank that finished it, or at its
/// home, not on ranks that it visits. While microbatches are missing, a sum is open.
void Arrivals::add_sum(const Name& sum, bool visits, int event) {
  last_[key(sum)] = event;
  const int version = plan_.made_by(sum.number);
  if (sum.number != plan_.last_micro_of(version))
    last_[key(Value::open_sum, sum.stage, version)] = event;
  else if (!visits)
    finished_sums_[version].push_back(event);
}

void Arrivals::add(const Instruction& x, int event) {
  if (is_compute(x)) return;
  for (const Name& name : makes(plan_, x))
    if (name.what == Value::gradient_sum)
      add_sum(name, receives(x) && plan_.home.empty(), event);
    else
      last_[key(name)] = event;
}

}  // namespace plangrad::parallel
