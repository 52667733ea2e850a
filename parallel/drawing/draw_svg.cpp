// How large a timeline's figure is, and what is cut so that it stays legible; and the figure of a
// broken plan: what ran before the fault, and the cell in red.
// Not here: the figure itself (timeline_figure.cpp), how far a broken plan runs (simulate.h).
// Chapter 06.
#include <cmath>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"
#include "parallel/simulation/variants.h"

namespace plangrad::parallel {
static double median_forward(const Timeline& timeline) {
  std::vector<double> durations;
  for (const Record& record : timeline.records)
    if (begins_pass(record.instruction)) durations.push_back(record.end - record.start);
  if (durations.empty()) return timeline.makespan();
  auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle > 0 ? *middle : timeline.makespan();
}

/// The width at which a forward's cell shows its microbatch, stage and version.
static double whole_label(const Timeline& timeline) {
  std::size_t longest = 1;
  for (const Record& record : timeline.records) {
    const Instruction& x = record.instruction;
    if (!uses_weights(x)) continue;
    longest = std::max(longest, std::to_string(x.micro).size());
    for (int number : {x.stage, x.version})
      longest = std::max(longest, 1 + std::to_string(number).size());
  }
  return std::ceil(label_width(11, longest));
}

FigureLayout suitable_layout(const Timeline& timeline, const FigureOptions& options) {
  check_drawable(timeline);
  constexpr int most_ranks = 64;
  constexpr double usual_cell = 22, smallest_cell = 9, narrowest = 560, widest = 2400;
  FigureLayout layout;
  layout.shown = options;
  layout.cell_seconds = median_forward(timeline);
  const int least = options.fault ? options.fault->record.rank + 1 : 0;
  layout.ranks = std::min(timeline.ranks, std::max(most_ranks, least));
  layout.seconds = options.seconds > 0 ? options.seconds : timeline.makespan();
  const double cells = layout.seconds / layout.cell_seconds;
  double axis = std::clamp(cells * std::max(usual_cell, whole_label(timeline)), narrowest, widest);
  if (options.width > 0) {
    axis = options.width - left_margin(layout.ranks) - right_margin;
    PG_CHECK(axis >= 100, "draw: a figure of ", options.width, " pixels leaves ", axis,
             " for its time axis, which needs 100; give it more width");
  }
  layout.seconds *= std::min(1.0, axis / (cells * smallest_cell));
  layout.pixels_per_second = axis / layout.seconds;
  return layout;
}

std::string draw_svg(const Timeline& timeline, const FigureOptions& options) {
  return timeline_figure(timeline, suitable_layout(timeline, options));
}

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
