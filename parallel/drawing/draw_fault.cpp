// The figure of a broken plan: what ran before the fault, and the cell in red.
// Not here: how far a broken plan runs (simulation/simulate.h). Chapter 06.
#include <algorithm>

#include "parallel/drawing/draw.h"
#include "parallel/simulation/simulate.h"

namespace plangrad::parallel {

std::string draw_fault(const Plan& plan, int rank, int index, const std::string& sentence,
                       const Costs& costs, FigureOptions options) {
  const Row& row = plan.rows.at(rank);
  const bool is_cell = index >= 0 && index < static_cast<int>(row.size());
  Timeline timeline = simulate_until_blocked(plan, costs, is_cell ? rank : -1, index).timeline;
  Fault fault{{rank, Lane::compute, {}, 0, 0}, sentence};
  if (is_cell) fault.record.instruction = row[index];
  for (const Record& record : timeline.records)  // a rank computes in the order of its row
    if (record.rank == rank && record.lane == Lane::compute)
      fault.record.start = std::max(fault.record.start, record.end);
  const double longest = *std::ranges::max_element(costs.forward);
  fault.record.end = fault.record.start + (longest > 0 ? longest : timeline.makespan() / 20);
  if (timeline.makespan() <= 0) timeline.records.push_back(fault.record);  // the first cell
  if (options.seconds <= 0) options.seconds = std::max(timeline.makespan(), fault.record.end);
  options.fault = fault;
  return draw_svg(timeline, options);
}

}  // namespace plangrad::parallel
