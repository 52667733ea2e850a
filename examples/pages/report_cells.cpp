// A rank's cells follow each other, so that small differences stand for their times. A computation
// is late because it took long, because its input came late, or because its thread had no core when
// it could have begun. The first late one has no other late one to blame. Chapter 06.
#include "examples/pages/report_cells.h"

#include "autograd/error.h"
#include "examples/pages/report_window.h"
#include "parallel/drawing/figure.h"
#include "parallel/simulation/time_steps.h"

namespace plangrad::examples {
using nlohmann::json;

static bool is_of_update(const Instruction& x, const Plan& plan, int version) {
  if (makes_version(x)) return x.version == version;
  return uses_weights(x) && plan.made_by(x.micro) == version;
}

static std::string reason(const WaitGraph& graph, int cell, const Record& record, double simulated,
                          double late) {
  const double took = record.end - record.start, longer = took - simulated;
  if (longer >= late / 2) {
    std::string why = autograd::text("took ", seconds_text(took), " where ",
                                     seconds_text(simulated), " are simulated");
    if (record.cpu > 0 && took - record.cpu >= longer / 2)
      why += "; its thread had a core for " + seconds_text(record.cpu) + " of them";
    return why;
  }
  const int cause = graph.cause(cell);
  if (cause == WaitGraph::none) return "began late, though it waited for nothing";
  const Instruction& x = graph.instruction(cause);
  const double held_up = graph.begin(cell) - graph.end(cause);
  if (held_up >= late / 2)
    return autograd::text(
        "began ", seconds_text(held_up), " after ",
        is_compute(x) ? "the computation before it had ended" : "its last input had come",
        ": its thread had no core");
  if (is_compute(x))
    return "waited for the computations before it, which took longer than simulated";
  return "waited for " + describe(value_of(x)) +
         (receives(x) ? autograd::text(" from rank ", x.peer) : "");
}

UpdateSpan span_of_update(const Plan& plan, const Timeline& timeline, int version) {
  UpdateSpan span{version, std::numeric_limits<double>::infinity(), 0};
  for (const Record& record : timeline.records) {
    if (!is_of_update(record.instruction, plan, version)) continue;
    span.begin = std::min(span.begin, record.start);
    span.end = std::max(span.end, record.end);
  }
  if (span.end == 0) span.begin = 0;
  return span;
}

std::string words_of(const Instruction& x) {
  if (makes_version(x)) return autograd::text("update ", x.version);
  const char* part = x.what == Value::input_part    ? ", gradient of the input"
                     : x.what == Value::weight_part ? ", gradient of the weights"
                                                    : "";
  return autograd::text(goes_back(x) ? "backward " : "forward ", x.micro, part);
}

std::optional<Late> first_late(const Plan& plan, const WaitGraph& graph, const Timeline& measured,
                               const UpdateSpan& span, const Timeline& simulated,
                               const UpdateSpan& simulated_span) {
  const WaitGraph simulated_graph(plan, simulated);
  const double enough = std::max(time_step(simulated) / 4, (span.end - span.begin) / 100);
  std::optional<Late> first;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    for (int cell : graph.computations(rank)) {
      const Record& record = measured.records.at(graph.record(cell));
      if (!is_of_update(record.instruction, plan, span.version)) continue;
      const Record& expected = simulated.records.at(simulated_graph.record(cell));
      const double late = record.end - span.begin - (expected.end - simulated_span.begin);
      if (late < enough || (first && first->begin <= record.start)) continue;
      first = Late{rank, record.instruction, record.start, late,
                   reason(graph, cell, record, expected.end - expected.start, late)};
    }
  return first;
}

namespace {

/// Seconds at which a cell begins and ends.
struct CellTime {
  double begin = 0, end = 0;
};

/// The computation of another rank that a cell waited for in the end: "1:2B9v1"; empty: none.
std::string source_of(const WaitGraph& graph, int rank, int cell) {
  int cause = graph.cause(cell);
  while (cause != WaitGraph::none && !is_compute(graph.instruction(cause)))
    cause = graph.cause(cause);
  if (cause == WaitGraph::none || graph.rank(cause) == rank) return "";
  return autograd::text(graph.rank(cause), ":", print(graph.instruction(cause)));
}

/// One rank's row of the page.
class RowOfCells {
 public:
  RowOfCells(const WaitGraph& graph, int rank, double tick, double least)
      : graph_(graph), rank_(rank), tick_(tick), least_(least) {}

  void add(int cell, const CellTime& simulated) {
    const double begin = graph_.begin(cell), end = graph_.end(cell);
    cells_ += (count_ > 0 ? " " : "") + print(graph_.instruction(cell));
    add_wait(cell, begin);
    push(measured_, {begin, end}, measured_end_);
    push(simulated_, simulated, simulated_end_);
    ++count_;
  }
  json to_json() && {
    return {{"rank", rank_},
            {"cells", cells_},
            {"measured", measured_},
            {"simulated", simulated_},
            {"waits", waits_}};
  }

 private:
  std::int64_t ticks(double seconds) const { return std::llround(seconds / tick_); }

  void push(std::vector<std::int64_t>& list, const CellTime& time, std::int64_t& before) {
    list.push_back(ticks(time.begin) - before);
    list.push_back(std::max<std::int64_t>(0, ticks(time.end) - ticks(time.begin)));
    before = ticks(time.begin) + list.back();
  }
  void add_wait(int cell, double begin) {
    const double idle_from = static_cast<double>(measured_end_) * tick_;
    if (begin - idle_from < least_ || count_ == 0) return;
    TimeParts parts;
    divide_idle(graph_, rank_, graph_.cause(cell), idle_from, begin, parts);
    waits_.push_back({count_, ticks(parts.waiting - parts.other), ticks(parts.point_to_point),
                      ticks(parts.collective), source_of(graph_, rank_, cell)});
  }

  const WaitGraph& graph_;
  int rank_, count_ = 0;
  double tick_, least_;
  std::string cells_;
  std::vector<std::int64_t> measured_, simulated_;
  std::int64_t measured_end_ = 0, simulated_end_ = 0;
  json waits_ = json::array();
};

}  // namespace

std::vector<std::vector<int>> shown_ranks(const Plan& plan) {
  constexpr int all_shown = 32;
  std::map<std::vector<std::tuple<Op, Value, int>>, std::size_t> known;
  std::vector<std::vector<int>> result;
  for (int rank = 0; rank < plan.ranks(); ++rank) {
    std::vector<std::tuple<Op, Value, int>> row;
    if (plan.ranks() <= all_shown) row.emplace_back(Op::drop, Value::none, rank);  // all differ
    for (const Instruction& x : plan.rows[rank])
      if (is_compute(x)) row.emplace_back(x.op, x.what, x.stage);
    const auto [found, is_new] = known.try_emplace(row, result.size());
    if (is_new) result.emplace_back();
    result[found->second].push_back(rank);
  }
  return result;
}

json cells_json(const Plan& plan, const Timeline& measured, const Timeline& simulated,
                const UpdateSpan& update) {
  constexpr std::size_t most_cells = 12000;
  const WaitGraph graph(plan, measured), simulated_graph(plan, simulated);
  const double tick = std::max(measured.makespan(), simulated.makespan()) / 100'000;
  const double beside = 0.1 * (update.end - update.begin);
  auto is_near = [&](int cell) {
    return graph.end(cell) > update.begin - beside && graph.begin(cell) < update.end + beside;
  };
  std::vector<std::vector<int>> shown = shown_ranks(plan);
  std::size_t all = 0, near = 0;
  for (const std::vector<int>& ranks : shown)
    for (int cell : graph.computations(ranks.front())) ++all, near += is_near(cell);

  const bool one_update = all > most_cells;
  const std::size_t every = one_update ? (near + most_cells - 1) / most_cells : 1;
  json result{{"tick", tick}, {"rows", json::array()}, {"left_out", ""}};
  if (one_update) result["left_out"] = autograd::text("update ", update.version, " alone is shown");
  if (every > 1)
    result["left_out"] = autograd::text("update ", update.version, ", each ", every, "th row");
  for (std::size_t i = 0; i < shown.size(); i += every) {
    const int rank = shown[i].front();
    RowOfCells row(graph, rank, tick, time_step(measured) / 50);
    for (int cell : graph.computations(rank))
      if (!one_update || is_near(cell))
        row.add(cell, {simulated_graph.begin(cell), simulated_graph.end(cell)});
    result["rows"].push_back(std::move(row).to_json());
    if (shown[i].size() > 1) result["rows"].back()["same"] = shown[i];
  }
  return result;
}

}  // namespace plangrad::examples
