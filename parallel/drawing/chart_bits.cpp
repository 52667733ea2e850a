// Bits of layers over time: a row a layer, a column for each time that they were chosen.
// Not here: who chooses them (codecs/adaptive_bits.h). Chapter 10.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "parallel/drawing/chart.h"
#include "parallel/drawing/figure.h"

namespace paragrad::parallel {

using fmt::format;

std::string bits_chart(const std::vector<BitChange>& changes) {
  constexpr double left = 190, width = 560, row = 15, top = 8;
  std::set<std::string> layers;
  for (const BitChange& change : changes)
    for (const auto& [layer, bits] : change.bits) layers.insert(layer);
  const double column = std::min(40.0, (width - left) / static_cast<double>(changes.size()));
  std::string body;
  double y = top;
  for (const std::string& layer : layers) {
    body += format(R"(<text class="ink" x="6" y="{}">{}</text>)", number(y + 11), escape(layer));
    double x = left;
    for (const BitChange& change : changes) {
      const auto found = change.bits.find(layer);
      const int bits = found == change.bits.end() ? 0 : found->second;
      body += format(R"(<g class="bar"><rect x="{}" y="{}" width="{}" height="{}" fill="#2563a8" )"
                     R"(fill-opacity="{}"/><title>{}: {} bits from step {} on</title>)",
                     number(x), number(y), number(column - 1), number(row - 1),
                     number(0.1 + 0.9 * bits / 8), escape(layer), bits, change.step + 1);
      if (column >= 12)
        body += format(R"(<text {} x="{}" y="{}" text-anchor="middle">{}</text>)",
                       bits > 4 ? R"(fill="#fff")" : R"(class="ink")", number(x + column / 2),
                       number(y + 11), bits);
      body += "</g>\n";
      x += column;
    }
    y += row;
  }
  return format(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" )"
      R"(aria-label="Bits of each layer over time" viewBox="0 0 {} {}" font-size="11">)"
      "{}<text class=\"ink\" x=\"{}\" y=\"{}\">chosen after steps {} to {}</text></svg>\n",
      width, number(y + 24), body, left, number(y + 16), changes.front().step, changes.back().step);
}

}  // namespace paragrad::parallel
