// Bytes sent: a bar a rank, a part a kind.
// Not here: curves and memory (chart_curve.cpp, chart_memory.cpp).
// Chapter 06.
#include "parallel/drawing/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace paragrad::parallel {

using fmt::format;

std::string traffic_chart(const std::vector<Traffic>& traffic) {
  std::map<int, std::map<std::string, std::int64_t>> ranks;
  std::set<std::string> kinds;
  for (const Traffic& part : traffic) {
    ranks[part.rank][part.kind] += part.bytes;
    kinds.insert(part.kind);
  }
  double most = 0;
  for (const auto& [rank, parts] : ranks) {
    double sum = 0;
    for (const auto& [kind, bytes] : parts) sum += static_cast<double>(bytes);
    most = std::max(most, sum);
  }
  constexpr double width = 560, row = 24, left = 62, longest = 420;
  std::vector<NamedColor> colors;
  for (const std::string& kind : kinds) colors.push_back({kind, message_color(kind)});
  const Legend above = legend(colors, width - left);
  std::string body = format("<g transform=\"translate({} 5)\">{}</g>\n", left, above.svg);
  double y = above.height + 10;
  for (const auto& [rank, parts] : ranks) {
    double x = left, sum = 0;
    body += format(R"(<text class="ink" x="6" y="{}">rank {}</text>)", number(y + 12), rank);
    for (const auto& [kind, bytes] : parts) {
      double wide = most > 0 ? static_cast<double>(bytes) / most * longest : 0;
      body += format(R"(<rect class="bar" x="{}" y="{}" width="{}" height="17" fill="{}">)"
                     "<title>rank {}: {} of {}</title></rect>",
                     number(x), number(y), number(wide), message_color(kind), rank,
                     bytes_text(static_cast<double>(bytes)), escape(kind));
      x += wide;
      sum += static_cast<double>(bytes);
    }
    body += format("<text class=\"ink\" x=\"{}\" y=\"{}\">{}</text>\n", number(x + 6),
                   number(y + 12), bytes_text(sum));
    y += row;
  }
  return format(R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" )"
                R"(aria-label="Bytes sent by rank and kind" viewBox="0 0 {} {}" font-size="11">)"
                "{}</svg>\n",
                width, number(y + 6), body);
}

}  // namespace paragrad::parallel
