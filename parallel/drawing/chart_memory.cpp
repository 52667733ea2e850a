// Memory over time: the categories of one rank, stacked.
// Not here: axes and colours (chart_frame.cpp), and measuring (autograd/memory_meter.h).
// Chapter 06.
#include "parallel/drawing/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "parallel/drawing/chart_frame.h"
#include "parallel/drawing/figure.h"

namespace paragrad::parallel {
namespace {

using fmt::format;

/// What lives at one moment, by category, and all together.
struct Moment {
  std::map<std::string, double> bytes;
  double sum() const {
    double sum = 0;
    for (const auto& [category, live] : bytes) sum += live;
    return sum;
  }
};

constexpr int columns = 300;

/// For each column of the chart, the moment at which most was alive.
std::vector<Moment> highest_moments(const std::vector<MemorySample>& samples, int rank,
                                    double seconds) {
  std::vector<Moment> result(columns);
  Moment now;
  int column = 0;
  for (const MemorySample& sample : samples) {
    if (sample.rank != rank) continue;
    int to = std::clamp(static_cast<int>(sample.seconds / seconds * columns), column, columns - 1);
    while (column < to) result[++column] = now;
    now.bytes[sample.category] = static_cast<double>(sample.bytes);
    if (now.sum() > result[column].sum()) result[column] = now;
  }
  while (column < columns - 1) result[++column] = now;
  return result;
}

/// In the order of their first samples: what is there from the start lies at the bottom. Those that
/// nothing was ever charged to are left out.
std::vector<std::string> categories_of(const std::vector<MemorySample>& samples) {
  std::map<std::string, std::int64_t> peaks;
  for (const MemorySample& sample : samples)
    peaks[sample.category] = std::max(peaks[sample.category], sample.bytes);
  std::vector<std::string> names;
  for (const MemorySample& sample : samples)
    if (peaks[sample.category] > 0 &&
        std::find(names.begin(), names.end(), sample.category) == names.end())
      names.push_back(sample.category);
  return names;
}

}  // namespace

double peak_memory(const std::vector<MemorySample>& samples) {
  std::map<int, Moment> live;
  double peak = 0;
  for (const MemorySample& sample : samples) {
    live[sample.rank].bytes[sample.category] = static_cast<double>(sample.bytes);
    peak = std::max(peak, live[sample.rank].sum());
  }
  return peak;
}

std::string memory_chart(const std::vector<MemorySample>& samples, int rank, double highest,
                         double seconds) {
  const std::vector<std::string> categories = categories_of(samples);
  const TimeUnit unit = time_unit(seconds);
  const std::vector<Moment> moments = highest_moments(samples, rank, seconds);
  ChartFrame frame(0, seconds, 0, highest);
  frame.y_axis(bytes_text);
  frame.x_axis(unit.name, unit.per_second);
  frame.legend(categories);

  // Stack from the axis upwards; an area goes forth along its top and back along its bottom.
  std::vector<double> base(columns, 0);
  std::size_t color = 0;
  auto x = [&](int column) { return number(frame.x(seconds * column / columns)); };
  for (const std::string& category : categories) {
    std::string upper, lower;
    for (int c = 0; c < columns; ++c) {
      auto found = moments[c].bytes.find(category);
      double top = base[c] + (found == moments[c].bytes.end() ? 0 : found->second);
      upper += format("L{} {}H{}", x(c), number(frame.y(top)), x(c + 1));
      lower = format("L{} {}H{}", x(c + 1), number(frame.y(base[c])), x(c)) + lower;
      base[c] = top;
    }
    upper[0] = 'M';
    frame.add(format("<path d=\"{}{}Z\" fill=\"{}\" fill-opacity=\".85\"/>\n", upper, lower,
                     series_color(color++)));
  }
  for (int c = 0; c < columns; ++c) {
    std::string text = format("rank {}, {}: {} in all", rank, seconds_text(seconds * c / columns),
                              bytes_text(moments[c].sum()));
    for (const auto& [category, live] : moments[c].bytes)
      text += format("\n{}: {}", category, bytes_text(live));
    frame.strip(seconds * c / columns, seconds * (c + 1) / columns, text);
  }
  return frame.svg(format("Memory of rank {} over time", rank));
}

}  // namespace paragrad::parallel
