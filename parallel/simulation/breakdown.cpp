// Idle time is divided backwards: from its end to its beginning, along what was waited for.
// Chapter 06.
#include "parallel/simulation/breakdown.h"

#include <algorithm>
#include <set>

#include "parallel/simulation/wait_graph.h"

namespace plangrad::parallel {
namespace {

/// The part that the time of a message or computation goes to.
double& part_of(TimeParts& parts, const Instruction& x) {
  if (makes_version(x)) return parts.update;
  if (is_compute(x)) return parts.compute;
  return meets(x) ? parts.collective : parts.point_to_point;
}

/// Divides the idle time [from, to) of `rank`, which waits for `cell`.
// [snippet divide]
void divide(const WaitGraph& graph, int rank, int cell, double from, double to, TimeParts& parts) {
  while (cell != WaitGraph::none && !is_compute(graph.instruction(cell)) && to > from) {
    const double end = std::clamp(graph.end(cell), from, to);
    const double begin = std::clamp(graph.begin(cell), from, end);
    parts.waiting += to - end;
    parts.other += to - end;
    part_of(parts, graph.instruction(cell)) += end - begin;
    to = begin;
    cell = graph.cause(cell);
  }
  const bool of_other_rank = cell != WaitGraph::none && graph.rank(cell) != rank;
  parts.waiting += to - from;
  parts.other += to - (of_other_rank ? std::clamp(graph.end(cell), from, to) : from);
}
// [end snippet]

}  // namespace

TimeParts& TimeParts::operator+=(const TimeParts& more) {
  for (auto part :
       {&TimeParts::compute, &TimeParts::forward, &TimeParts::update, &TimeParts::waiting,
        &TimeParts::other, &TimeParts::point_to_point, &TimeParts::collective})
    this->*part += more.*part;
  return *this;
}

TimeParts Breakdown::all() const {
  TimeParts sum;
  for (const TimeParts& rank : ranks) sum += rank;
  return sum;
}

TimeParts idle_parts(const WaitGraph& graph, int rank, int cause, double from, double to) {
  TimeParts parts;
  divide(graph, rank, cause, from, to, parts);
  return parts;
}

Breakdown breakdown(const Plan& plan, const Timeline& timeline) {
  const WaitGraph graph(plan, timeline);
  Breakdown result{timeline.makespan(), std::vector<TimeParts>(graph.ranks())};
  for (int rank = 0; rank < graph.ranks(); ++rank) {
    TimeParts& parts = result.ranks[rank];
    double now = 0;
    for (int cell : graph.computations(rank)) {
      const double begin = std::max(graph.begin(cell), now), end = std::max(graph.end(cell), begin);
      divide(graph, rank, graph.cause(cell), now, begin, parts);
      part_of(parts, graph.instruction(cell)) += end - begin;
      if (begins_pass(graph.instruction(cell))) parts.forward += end - begin;
      now = end;
    }
    divide(graph, rank, graph.last_arrival(rank), now, result.makespan, parts);
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

}  // namespace plangrad::parallel
