// Memory over time: the categories of one rank, stacked, and one category of all ranks together.
// Not here: axes and colours (chart_frame.cpp), and measuring (autograd/memory_meter.h).
// Chapters 06 and 08.
#include <algorithm>
#include <map>
#include <set>

#include "parallel/drawing/chart.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

constexpr int columns = 300;

/// For each column of the chart, the moment at which most was alive.
std::vector<Parts> highest_moments(const std::vector<MemorySample>& samples, int rank,
                                   double seconds) {
  std::vector<Parts> result(columns);
  Parts now;
  int column = 0;
  for (const MemorySample& sample : samples) {
    if (sample.rank != rank) continue;
    int to = std::clamp(static_cast<int>(sample.seconds / seconds * columns), column, columns - 1);
    while (column < to) result[++column] = now;
    now[sample.category] = static_cast<double>(sample.bytes);
    if (sum(now) > sum(result[column])) result[column] = now;
  }
  while (column < columns - 1) result[++column] = now;
  return result;
}

/// Categories in the order of their first samples, so that the earliest are at the bottom.
/// Categories that nothing was charged to are left out.
std::vector<std::string> categories_of(const std::vector<MemorySample>& samples) {
  std::set<std::string> charged;
  for (const MemorySample& sample : samples)
    if (sample.bytes > 0) charged.insert(sample.category);
  std::vector<std::string> names;
  for (const MemorySample& sample : samples)
    if (charged.erase(sample.category) > 0) names.push_back(sample.category);
  return names;
}

void mark_peak(ChartFrame& frame, double peak) {
  const double right = ChartFrame::right, y = frame.y(peak);
  frame.add(markup(R"(<path class="mark" d="M{} {}H{}" stroke="#1f2933" stroke-dasharray="5 4"/>)",
                   ChartFrame::left, y, right));
  frame.add(ink(right, y, "peak " + bytes_text(peak), R"( dy="-5" text-anchor="end")") + '\n');
}

}  // namespace

double peak_memory(const std::vector<MemorySample>& samples) {
  std::map<int, Parts> live;  // by rank
  double peak = 0;
  for (const MemorySample& sample : samples) {
    live[sample.rank][sample.category] = static_cast<double>(sample.bytes);
    peak = std::max(peak, sum(live[sample.rank]));
  }
  return peak;
}

std::string memory_chart(const std::vector<MemorySample>& samples, int rank, double highest,
                         double seconds) {
  const std::vector<std::string> categories = categories_of(samples);
  const std::vector<Parts> moments = highest_moments(samples, rank, seconds);
  ChartFrame frame(highest, seconds, time_unit(seconds));
  frame.legend(categories);

  // Stack from the axis upwards; an area's path runs along its top and back along its bottom.
  std::vector<double> base(columns, 0);
  std::size_t color = 0;
  auto x = [&](int column) { return frame.x(seconds * column / columns); };
  for (const std::string& category : categories) {
    std::string upper, lower;
    for (int c = 0; c < columns; ++c) {
      auto found = moments[c].find(category);
      double top = base[c] + (found == moments[c].end() ? 0 : found->second);
      upper += markup("L{} {}H{}", x(c), frame.y(top), x(c + 1));
      lower = markup("L{} {}H{}", x(c + 1), frame.y(base[c]), x(c)) + lower;
      base[c] = top;
    }
    upper[0] = 'M';
    frame.add(format("<path d=\"{}{}Z\" fill=\"{}\" fill-opacity=\".85\"/>\n", upper, lower,
                     series_color(color++)));
  }
  for (int c = 0; c < columns; ++c) {
    const double from = seconds * c / columns, to = seconds * (c + 1) / columns;
    frame.strip(from, to,
                format("rank {}, {}: {} in all{}", rank, seconds_text(from),
                       bytes_text(sum(moments[c])), lines(moments[c])));
  }
  return frame.svg(format("Memory of rank {} over time", rank));
}

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
                               double seconds, double highest) {
  if (highest <= 0) highest = total.peak > 0 ? total.peak * 1.05 : 1;
  ChartFrame frame(highest, seconds, time_unit(seconds));
  std::vector<MemorySample> samples;  // as if all ranks were one
  for (const auto& [at, bytes] : total.levels)
    samples.push_back({0, at, category, static_cast<std::int64_t>(bytes)});
  const std::vector<Parts> moments = highest_moments(samples, 0, seconds);
  std::string path = markup("M{} {}", frame.x(0), frame.y(0));
  for (int c = 0; c < columns; ++c) {
    const double from = seconds * c / columns, to = seconds * (c + 1) / columns;
    const double bytes = sum(moments[c]);
    path += markup("V{}H{}", frame.y(bytes), frame.x(to));
    frame.strip(from, to,
                format("all ranks, {}: {} of {}", seconds_text(from), bytes_text(bytes), category));
  }
  frame.add(markup("<path d=\"{}V{}Z\" fill=\"{}\" fill-opacity=\".85\"/>\n", path, frame.y(0),
                   series_color(0)));
  mark_peak(frame, total.peak);
  return frame.svg(format("Memory of all ranks together: {}", category));
}

}  // namespace paragrad::parallel
