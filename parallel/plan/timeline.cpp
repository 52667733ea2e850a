// Sums over a timeline: work is the compute lane, but for drops, which take no time. And the two
// lines of a message-driven row: a cell that keeps its place ends both, and what stands behind it
// is read once it has run. Not here: where idle time goes (simulation/breakdown.h). Chapter 06.
#include "parallel/plan/timeline.h"

#include <set>

namespace plangrad::parallel {

double Timeline::makespan() const {
  double end = 0;
  for (const Record& record : records) end = std::max(end, record.end);
  return end;
}

double Timeline::bubble() const {
  double busy = 0;
  for (const Record& record : records) {
    bool works = record.lane == Lane::compute && !drops(record.instruction);
    if (works) busy += record.end - record.start;
  }
  double available = ranks * makespan();
  return available > 0 ? 1 - busy / available : 0;  // an empty timeline has no bubble
}

std::int64_t Timeline::bytes() const {
  std::int64_t sum = 0;
  for (const Record& record : records) sum += record.bytes;
  return sum;
}

std::vector<int> other_ends(const Timeline& timeline) {
  struct Channel {
    std::vector<int> sends, receives;
  };
  std::map<std::pair<int, int>, Channel> channels;  // by sender and receiver
  for (std::size_t i = 0; i < timeline.records.size(); ++i) {
    const Record& record = timeline.records[i];
    const Instruction& x = record.instruction;
    if (sends(x)) channels[{record.rank, x.peer}].sends.push_back(static_cast<int>(i));
    if (receives(x)) channels[{x.peer, record.rank}].receives.push_back(static_cast<int>(i));
  }
  std::vector<int> others(timeline.records.size(), -1);
  for (const auto& [ends, channel] : channels)
    for (std::size_t k = 0; k < std::min(channel.sends.size(), channel.receives.size()); ++k) {
      others[channel.sends[k]] = channel.receives[k];
      others[channel.receives[k]] = channel.sends[k];
    }
  return others;
}

// ---- message-driven rows ----

// [snippet next]
std::vector<int> DrivenOrder::next() const {
  std::vector<int> cells;
  for (const Line* line : {&backwards_, &forwards_}) {
    if (line->at_end()) continue;
    if (!uses_weights(row_[line->next()])) return {line->next()};
    if (may_run(*line)) cells.push_back(line->next());
  }
  if (cells.empty() && end_ < static_cast<int>(row_.size())) cells = {end_};
  return cells;
}
// [end snippet]

void DrivenOrder::ran(int cell) {
  if (cell == end_) {
    ++end_;
    return read_lines();
  }
  const bool of_backwards = !backwards_.at_end() && backwards_.next() == cell;
  ++(of_backwards ? backwards_ : forwards_).done;
  if (goes_back(row_[cell])) --in_flight_;
  if (begins_pass(row_[cell]) && !of_backwards) ++in_flight_;
}

/// Reads both lines, from end_ up to the next instruction that keeps its place.
void DrivenOrder::read_lines() {
  forwards_ = backwards_ = {};
  std::set<int> begun;  // microbatches
  for (; end_ < static_cast<int>(row_.size()); ++end_) {
    const Instruction& x = row_[end_];
    const bool backward = goes_back(x) || x.what == Value::activation_gradient;
    const bool again = begins_pass(x) && !begun.insert(x.micro).second;
    if (backward || again)
      backwards_.cells.push_back(end_);
    else if (begins_pass(x) || x.what == Value::activation)
      forwards_.cells.push_back(end_);
    else
      break;
  }
}

/// Whether a line's computation may run. A forward in flight is the one of the next backward, as
/// both lines have the same order of microbatches.
bool DrivenOrder::may_run(const Line& line) const {
  if (&line == &backwards_) return in_flight_ > 0;
  return !begins_pass(row_[line.next()]) || in_flight_ < limit_;
}

Plan plan_as_it_ran(const Plan& plan, const std::vector<std::vector<int>>& orders) {
  PG_CHECK(static_cast<int>(orders.size()) == plan.ranks(), "expected the orders of ",
           counted(plan.ranks(), "rank"), ", got ", orders.size());
  Plan result = plan;
  result.in_flight = 0;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    PG_CHECK(orders[rank].size() == plan.rows[rank].size(), "rank ", rank, " ran ",
             orders[rank].size(), " of ", counted(plan.rows[rank].size(), "instruction"));
    for (std::size_t i = 0; i < orders[rank].size(); ++i)
      result.rows[rank][i] = plan.rows[rank].at(orders[rank][i]);
  }
  return result;
}

}  // namespace plangrad::parallel
