// A computation is late because it took long, because its input came late, or because its thread
// had no core when it could have begun. The first late one has no other late one to blame.
// Chapter 06.
#include "examples/pages/report_late.h"

#include <algorithm>
#include <limits>

#include "autograd/error.h"
#include "parallel/drawing/figure.h"

namespace plangrad::parallel {
namespace {

bool is_of_update(const Instruction& x, const Plan& plan, int version) {
  if (makes_version(x)) return x.version == version;
  return uses_weights(x) && plan.made_by(x.micro) == version;
}

std::string reason(const WaitGraph& graph, int cell, const Record& record, double planned,
                   double late) {
  const double took = record.end - record.start, longer = took - planned;
  if (longer >= late / 2) {
    std::string why = autograd::text("took ", seconds_text(took), " where ", seconds_text(planned),
                                     " are planned");
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
  if (is_compute(x)) return "waited for the computations before it, which took longer than planned";
  return "waited for " + describe(value_of(x)) +
         (receives(x) ? autograd::text(" from rank ", x.peer) : "");
}

}  // namespace

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
                               const UpdateSpan& span, const Timeline& planned,
                               const UpdateSpan& planned_span) {
  const WaitGraph planned_graph(plan, planned);
  const double enough = std::max(time_step(planned) / 4, (span.end - span.begin) / 100);
  std::optional<Late> first;
  for (int rank = 0; rank < graph.ranks(); ++rank)
    for (int cell : graph.computations(rank)) {
      const Record& record = measured.records.at(graph.record(cell));
      if (!is_of_update(record.instruction, plan, span.version)) continue;
      const Record& expected = planned.records.at(planned_graph.record(cell));
      const double late = record.end - span.begin - (expected.end - planned_span.begin);
      if (late < enough || (first && first->begin <= record.start)) continue;
      first = Late{rank, record.instruction, record.start, late,
                   reason(graph, cell, record, expected.end - expected.start, late)};
    }
  return first;
}

}  // namespace plangrad::parallel
