// What waited for what, from the records of cells; idle time is divided backwards, from its end to
// its beginning, along what was waited for. Chapter 06.
#include "parallel/simulation/breakdown.h"

#include <nlohmann/json.hpp>

#include "parallel/plan/lifetimes.h"

namespace plangrad::parallel {

/// The plan with its rows in the order in which they ran.
static Plan as_it_ran(const Plan& plan, const Timeline& timeline) {
  PG_CHECK(timeline.ranks == plan.ranks(), "timeline: the plan has ", counted(plan.ranks(), "rank"),
           ", its timeline ", timeline.ranks, "; give the timeline of this plan");
  if (plan.in_flight == 0) return plan;
  Plan result = plan;
  result.in_flight = 0;
  for (Row& row : result.rows) row.clear();
  for (const Record& record : timeline.records)
    result.rows.at(record.rank).push_back(record.instruction);
  return result;
}

/// Whether a measured timeline lacks a cell: the engine does it in no time.
static bool is_instant(const Instruction& x, const Plan& plan) {
  return drops(x) || (x.op == Op::norm && plan.groups[x.peer].size() == 1);
}

/// The part that the time of a message or computation goes to.
static double& part_of(TimeParts& parts, const Instruction& x) {
  if (makes_version(x)) return parts.update;
  if (is_compute(x)) return parts.compute;
  return meets(x) ? parts.collective : parts.point_to_point;
}

// [snippet divide]
void divide_idle(const WaitGraph& graph, int rank, int cell, double from, double to,
                 TimeParts& parts) {
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

WaitGraph::WaitGraph(const Plan& plan, const Timeline& timeline)
    : plan_(as_it_ran(plan, timeline)),
      timeline_(timeline),
      events_(events_of(plan_, pair_up(plan_))),
      ends_(events_.size()),
      awaited_(events_.size()),
      record_(events_.size(), none),
      computations_(plan_.ranks()) {
  match_records();
  for (int cell = 0; cell < events_.size(); ++cell) ends_[events_.of[cell]].push_back(cell);
  const std::vector<int> versions = tied_versions(plan_);
  for (int rank = 0; rank < plan_.ranks(); ++rank) add_row(rank, versions);
  add_queues();
}

void WaitGraph::match_records() {
  for (std::size_t i = 0; i < timeline_.records.size(); ++i) {
    const Record& record = timeline_.records[i];
    if (drops(record.instruction)) continue;
    const Row& row = plan_.rows.at(record.rank);
    const bool fits = record.cell >= 0 && record.cell < static_cast<int>(row.size()) &&
                      row[record.cell] == record.instruction;
    const int cell = fits ? events_.row_begin[record.rank] + record.cell : none;
    PG_CHECK(fits && record_[cell] == none, "timeline: the timeline has ",
             print(record.instruction), " of rank ", record.rank, " as cell ", record.cell,
             fits ? " more often than the plan" : ", where the plan has another",
             "; give the timeline of this plan");
    record_[cell] = static_cast<int>(i);
  }
  for (int cell = 0; cell < events_.size(); ++cell)
    PG_CHECK(record_[cell] != none || is_instant(instruction(cell), plan_),
             "timeline: the timeline lacks ", print(instruction(cell)), " of rank ",
             events_.rank_of(cell), "; give the timeline of this plan");
}

void WaitGraph::add_row(int rank, const std::vector<int>& tied_versions) {
  RowReader reader(plan_, tied_versions);
  int cell = events_.row_begin[rank];
  std::vector<int> carried;  // from cells without a record
  for (const Instruction& x : plan_.rows[rank]) {
    const int here = cell++;
    std::vector<int>& awaited = awaited_[here] = reader.awaited(x);
    if (record_[here] == none) {
      carried.insert(carried.end(), awaited.begin(), awaited.end());
      continue;
    }
    reader.add(x, here);
    awaited.insert(awaited.end(), carried.begin(), carried.end());
    if (!is_compute(x)) continue;
    computations_[rank].push_back(here);
    carried.clear();
  }
}

/// Lets each end of a message wait for the message before it in the queue of its rank.
void WaitGraph::add_queues() {
  for (int event = 0; event < events_.size(); ++event) {
    if (events_.before[event] < 0) continue;
    for (int cell : ends_[event])
      for (int earlier : ends_[events_.before[event]])
        if (record_[earlier] != none && events_.rank_of(earlier) == events_.rank_of(cell))
          awaited_[cell].push_back(earlier);
  }
}

int WaitGraph::last_arrival(int rank) const {
  int last = none, cell = events_.row_begin[rank];
  for (const Instruction& x : plan_.rows[rank]) {
    const int here = cell++;
    if (record_[here] == none || (!receives(x) && !meets(x))) continue;
    if (last == none || end(here) > end(last)) last = here;
  }
  return last;
}

int WaitGraph::last() const {
  int last = none;
  for (int cell = 0; cell < events_.size(); ++cell) {
    if (record_[cell] == none) continue;
    const bool same_rank = last != none && events_.rank_of(cell) == events_.rank_of(last);
    if (last == none || end(cell) > end(last) || (same_rank && end(cell) == end(last))) last = cell;
  }
  return last;
}

double WaitGraph::begin(int cell) const {
  double begin = timeline_.records.at(record_.at(cell)).start;
  if (is_compute(instruction(cell))) return begin;
  for (int each : ends_[events_.of[cell]]) {
    begin = std::max(begin, timeline_.records.at(record_.at(each)).start);
    for (int earlier : awaited_[each]) begin = std::max(begin, end(earlier));
  }
  return begin;
}

int WaitGraph::cause(int cell) const {
  int cause = none;
  auto is_later = [this](int a, int b) {
    return end(a) != end(b) ? end(a) > end(b)
                            : is_compute(instruction(a)) && !is_compute(instruction(b));
  };
  for (int each : ends_[events_.of[cell]])
    for (int earlier : awaited_[each])
      if (cause == none || is_later(earlier, cause)) cause = earlier;
  return cause;
}

void TimeParts::add(const TimeParts& more, double times) {
  for (auto part :
       {&TimeParts::compute, &TimeParts::forward, &TimeParts::update, &TimeParts::waiting,
        &TimeParts::other, &TimeParts::point_to_point, &TimeParts::collective})
    this->*part += times * more.*part;
}

TimeParts Breakdown::all() const {
  TimeParts sum;
  for (const TimeParts& rank : ranks) sum.add(rank);
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
      divide_idle(graph, rank, graph.cause(cell), now, begin, parts);
      part_of(parts, graph.instruction(cell)) += end - begin;
      if (begins_pass(graph.instruction(cell))) parts.forward += end - begin;
      now = end;
    }
    divide_idle(graph, rank, graph.last_arrival(rank), now, result.makespan, parts);
  }
  return result;
}

nlohmann::json to_json(const Breakdown& breakdown) {
  auto json_of = [](const TimeParts& parts) {
    nlohmann::json result{{"forward", parts.forward},
                          {"backward", parts.compute - parts.forward},
                          {"other", parts.other}};
    for (const NamedPart& part : named_parts) result[part.key] = parts.*part.seconds;
    return result;
  };
  nlohmann::json result = json_of(breakdown.all());
  result["makespan"] = breakdown.makespan;
  for (const TimeParts& rank : breakdown.ranks) result["ranks"].push_back(json_of(rank));
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
