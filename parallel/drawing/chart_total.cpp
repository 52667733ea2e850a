// One category of memory over time, of all ranks together.
// Not here: the memory of one rank by category (chart_memory.cpp).
// Chapter 08.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "parallel/drawing/chart.h"
#include "parallel/drawing/chart_frame.h"
#include "parallel/drawing/figure.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

constexpr int columns = 300;

/// For each column of the chart, the most bytes in it.
std::vector<double> highest(const MemoryTotal& total, double seconds) {
  std::vector<double> result(columns, 0);
  double live = 0;
  int column = 0;
  for (const auto& [at, bytes] : total.levels) {
    int to = std::clamp(static_cast<int>(at / seconds * columns), column, columns - 1);
    while (column < to) result[++column] = live;
    live = bytes;
    result[column] = std::max(result[column], live);
  }
  while (column < columns - 1) result[++column] = live;
  return result;
}

void mark_peak(ChartFrame& frame, double peak) {
  const std::string y = number(frame.y(peak));
  frame.add(format(R"(<path class="mark" d="M{} {}H{}" stroke="#1f2933" stroke-dasharray="5 4"/>)"
                   R"(<text class="ink" x="{}" y="{}" dy="-5" text-anchor="end">peak {}</text>)"
                   "\n",
                   ChartFrame::left, y, ChartFrame::width - ChartFrame::right,
                   ChartFrame::width - ChartFrame::right, y, bytes_text(peak)));
}

}  // namespace

MemoryTotal memory_total(std::vector<MemorySample> samples, const std::string& category) {
  std::stable_sort(samples.begin(), samples.end(),
                   [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
  MemoryTotal total;
  std::map<int, double> live;  // by rank
  double now = 0, area = 0, last = 0;
  for (const MemorySample& sample : samples) {
    if (sample.category != category) continue;
    area += now * (sample.seconds - last);
    last = sample.seconds;
    now += static_cast<double>(sample.bytes) - live[sample.rank];
    live[sample.rank] = static_cast<double>(sample.bytes);
    // Ranks that change at one moment make one level.
    if (!total.levels.empty() && total.levels.back().first == last) total.levels.pop_back();
    total.levels.emplace_back(last, now);
  }
  for (const auto& [at, bytes] : total.levels) total.peak = std::max(total.peak, bytes);
  total.mean = last > 0 ? area / last : now;
  return total;
}

std::string memory_total_chart(const MemoryTotal& total, const std::string& category,
                               double seconds, double highest_bytes) {
  const TimeUnit unit = time_unit(seconds);
  if (highest_bytes <= 0) highest_bytes = total.peak > 0 ? total.peak * 1.05 : 1;
  ChartFrame frame(0, seconds, 0, highest_bytes);
  frame.y_axis(bytes_text);
  frame.x_axis(unit.name, unit.per_second);
  const std::vector<double> bytes = highest(total, seconds);
  auto x = [&](int column) { return frame.x(seconds * column / columns); };
  std::string path = format("M{} {}", number(x(0)), number(frame.y(0)));
  for (int c = 0; c < columns; ++c) {
    path += format("V{}H{}", number(frame.y(bytes[c])), number(x(c + 1)));
    frame.strip(seconds * c / columns, seconds * (c + 1) / columns,
                format("all ranks, {}: {} of {}", seconds_text(seconds * c / columns),
                       bytes_text(bytes[c]), category));
  }
  frame.add(format("<path d=\"{}V{}Z\" fill=\"{}\" fill-opacity=\".85\"/>\n", path,
                   number(frame.y(0)), series_color(0)));
  mark_peak(frame, total.peak);
  return frame.svg(format("Memory of all ranks together: {}", category));
}

}  // namespace paragrad::parallel
