// How large a timeline's figure is, and what is cut so that it stays legible.
// Not here: the figure itself (timeline_figure.cpp).
// Chapter 06.
#include <algorithm>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace paragrad::parallel {
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

}  // namespace

FigureLayout suitable_layout(const Timeline& timeline) {
  check_drawable(timeline);
  constexpr int most_ranks = 64;
  constexpr double cell = 22, smallest_cell = 9, narrowest = 560, widest = 2400;
  FigureLayout layout;
  layout.cell_seconds = median_forward(timeline);
  double cells = timeline.makespan() / layout.cell_seconds;
  layout.ranks = std::min(timeline.ranks, most_ranks);
  layout.seconds = timeline.makespan() * std::min(1.0, widest / (cells * smallest_cell));
  layout.pixels_per_second = std::clamp(cells * cell, narrowest, widest) / layout.seconds;
  return layout;
}

std::string draw_svg(const Timeline& timeline, bool alive, const std::vector<int>& path) {
  FigureLayout layout = suitable_layout(timeline);
  layout.alive = alive;
  layout.path = path;
  return timeline_figure(timeline, layout);
}

}  // namespace paragrad::parallel
