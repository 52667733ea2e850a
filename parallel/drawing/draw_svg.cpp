// How large a timeline's figure is, and what is cut so that it stays legible.
// Not here: the figure itself (timeline_figure.cpp).
// Chapter 06.
#include <algorithm>
#include <cmath>

#include "autograd/error.h"
#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {
namespace {

double median_forward(const Timeline& timeline) {
  std::vector<double> durations;
  for (const Record& record : timeline.records)
    if (begins_pass(record.instruction)) durations.push_back(record.end - record.start);
  if (durations.empty()) return timeline.makespan();
  auto middle = durations.begin() + static_cast<std::ptrdiff_t>(durations.size() / 2);
  std::nth_element(durations.begin(), middle, durations.end());
  return *middle > 0 ? *middle : timeline.makespan();
}

/// The width at which a forward's cell shows its microbatch, stage and version.
double whole_label(const Timeline& timeline) {
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

}  // namespace

FigureLayout suitable_layout(const Timeline& timeline, const FigureOptions& options) {
  check_drawable(timeline);
  constexpr int most_ranks = 64;
  constexpr double usual_cell = 22, smallest_cell = 9, narrowest = 560, widest = 2400;
  FigureLayout layout;
  layout.shown = options;
  layout.cell_seconds = median_forward(timeline);
  layout.ranks = std::min(timeline.ranks, most_ranks);
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

}  // namespace plangrad::parallel
