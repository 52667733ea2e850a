// Idle time is divided backwards: from its end to its beginning, along what was waited for.
// Chapter 06.
#include "parallel/simulation/breakdown.h"

#include <algorithm>
#include <set>

#include "parallel/simulation/wait_graph.h"

namespace paragrad::parallel {
namespace {

/// The part that the time of a message or computation goes to.
double& part_of(TimeParts& parts, const Instruction& x) {
  if (makes_version(x)) return parts.update;
  if (is_compute(x)) return parts.compute;
  return meets(x) ? parts.collective : parts.point_to_point;
}

/// Divides the idle time [from, to) of a rank that waits for `cell`.
// [snippet divide]
void divide(const WaitGraph& graph, int cell, double from, double to, TimeParts& parts) {
  while (cell != WaitGraph::none && !is_compute(graph.instruction(cell)) && to > from) {
    const double end = std::clamp(graph.end(cell), from, to);
    const double begin = std::clamp(graph.begin(cell), from, end);
    parts.waiting += to - end;
    part_of(parts, graph.instruction(cell)) += end - begin;
    to = begin;
    cell = graph.cause(cell);
  }
  parts.waiting += to - from;
}
// [end snippet]

}  // namespace

TimeParts& TimeParts::operator+=(const TimeParts& other) {
  compute += other.compute;
  update += other.update;
  waiting += other.waiting;
  point_to_point += other.point_to_point;
  collective += other.collective;
  return *this;
}

TimeParts Breakdown::all() const {
  TimeParts sum;
  for (const TimeParts& rank : ranks) sum += rank;
  return sum;
}

Breakdown breakdown(const Plan& plan, const Timeline& timeline) {
  const WaitGraph graph(plan, timeline);
  Breakdown result{timeline.makespan(), std::vector<TimeParts>(graph.ranks())};
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    TimeParts& parts = result.ranks[rank];
    double now = 0;
    for (int cell : graph.computations(rank)) {
      const double begin = std::max(graph.begin(cell), now), end = std::max(graph.end(cell), begin);
      divide(graph, graph.cause(cell), now, begin, parts);
      part_of(parts, graph.instruction(cell)) += end - begin;
      now = end;
    }
    divide(graph, graph.last_arrival(rank), now, result.makespan, parts);
  }
  return result;
}

CriticalPath critical_path(const Plan& plan, const Timeline& timeline) {
  const WaitGraph graph(plan, timeline);
  CriticalPath path;
  std::set<int> ranks;
  double now = timeline.makespan();
  for (int cell = graph.last(); cell != WaitGraph::none; cell = graph.cause(cell)) {
    const Instruction& x = graph.instruction(cell);
    const double end = std::min(graph.end(cell), now), begin = std::min(graph.begin(cell), end);
    path.time.waiting += now - end;
    part_of(path.time, x) += end - begin;
    now = begin;
    path.records.push_back(graph.record(cell));
    ranks.insert(timeline.records[graph.record(cell)].rank);
    ++(is_compute(x) ? path.computations : meets(x) ? path.collectives : path.messages);
  }
  path.time.waiting += now;
  path.ranks = static_cast<int>(ranks.size());
  std::reverse(path.records.begin(), path.records.end());
  return path;
}

}  // namespace paragrad::parallel
