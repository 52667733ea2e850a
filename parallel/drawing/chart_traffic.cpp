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
  constexpr double row = 24, left = 62, longest = 420;
  double y = 30, legend_x = left;
  std::string body;
  for (const std::string& kind : kinds) {
    body += format(R"(<rect x="{}" y="8" width="12" height="8" rx="2" fill="{}"/>)"
                   R"(<text class="ink" x="{}" y="16">{}</text>)",
                   number(legend_x), message_color(kind), number(legend_x + 16), escape(kind));
    legend_x += 30 + 6.4 * static_cast<double>(kind.size());
  }
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
                R"(aria-label="Bytes sent by rank and kind" viewBox="0 0 560 {}" font-size="11">)"
                "{}</svg>\n",
                number(y + 6), body);
}

}  // namespace paragrad::parallel
