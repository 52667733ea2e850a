// The figure of a broken plan: what ran before the fault, and the cell in red.
// Not here: how far a broken plan runs (simulation/partial.h). Chapter 06.
#include <algorithm>

#include "parallel/drawing/draw.h"
#include "parallel/simulation/partial.h"

namespace plangrad::parallel {

std::string draw_fault(const Plan& plan, int rank, int index, const std::string& sentence,
                       const Costs& costs, FigureOptions options) {
  Timeline timeline = simulate_until(plan, rank, index, costs);
  const Row& row = plan.rows.at(rank);
  Fault fault{{rank, Lane::compute, {}, 0, 0}, sentence};
  if (index >= 0 && index < static_cast<int>(row.size())) fault.record.instruction = row[index];
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
