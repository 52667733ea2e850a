// The lane below a timeline's ranks: how many activations are alive on all of them together.
// Not here: how they are counted (parallel/simulation/time_steps.h).
// Chapter 08.
#include <fmt/format.h>

#include <algorithm>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"
#include "parallel/simulation/time_steps.h"

namespace paragrad::parallel {

using fmt::format;

AliveLane alive_lane(const Timeline& timeline, const FigureLayout& layout, double top,
                     double height) {
  const std::vector<Level> levels = activations_alive(timeline);
  AliveLane lane;
  for (const Level& level : levels) lane.most = std::max(lane.most, level.count);
  for (std::size_t i = 0; i + 1 < levels.size(); ++i) {
    const auto [start, count] = levels[i];
    const double seconds = levels[i + 1].seconds - start;
    if (count == 0 || start > layout.seconds) continue;
    const double high = height * count / lane.most;
    lane.svg += format(
        R"(<rect class="alive" x="{}" y="{}" width="{}" height="{}" fill="#5c7c8a" stroke="none" )"
        R"(shape-rendering="crispEdges">)"
        "<title>{} activations alive on all ranks, by stage and microbatch\nfrom {}, for {}"
        "</title></rect>\n",
        number(start * layout.pixels_per_second), number(top + height - high),
        number(seconds * layout.pixels_per_second), number(high), count, seconds_text(start),
        seconds_text(seconds));
  }
  return lane;
}

}  // namespace paragrad::parallel
