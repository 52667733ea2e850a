// Axes, legend and strips of charts.
// Not here: what they show (chart_*.cpp).
// Chapter 06.
#include "parallel/drawing/chart.h"

#include <algorithm>

namespace plangrad::parallel {

const std::string& series_color(std::size_t index) {
  static const std::vector<std::string> colors = {"#3b82c4", "#e07b39", "#2f9e5b", "#9b5de5",
                                                  "#d1495b", "#c9a227", "#5c7c8a"};
  return colors[index % colors.size()];
}

std::string chart_svg(const std::string& title, double top, double height, const std::string& body,
                      const std::string& attributes) {
  return markup(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" )"
      R"(aria-label="{}" width="{}" height="{}" viewBox="0 {} {} {}" font-size="11"{}>{}{}</svg>)"
      "\n",
      escape(title), chart_width, height, top, chart_width, height, attributes, dark_style,
      paper(0, top, chart_width, height) + body);
}

double ChartFrame::x(double value) const {
  double part = x_high_ > x_low_ ? (value - x_low_) / (x_high_ - x_low_) : 0.5;
  return left + part * (right - left);
}

double ChartFrame::y(double value) const {
  double part = y_high_ > y_low_ ? (value - y_low_) / (y_high_ - y_low_) : 0.5;
  return bottom - part * (bottom - top);
}

void ChartFrame::x_axis(const std::string& label, double per_unit) {
  for (double tick : ticks(x_low_ * per_unit, x_high_ * per_unit, 6)) {
    const std::string text = fmt::format("{:.6g}", tick);
    double last = chart_width - text_width(text) / 2 - 1;  // where it is not cut
    axes_ += ink(std::min(x(tick / per_unit), last), bottom + 16, text, R"( text-anchor="middle")");
  }
  axes_ += ink(right, bottom + 32, label, R"( text-anchor="end")");
}

void ChartFrame::y_axis(std::string (*text)(double)) {
  for (double tick : ticks(y_low_, y_high_, 5)) {
    axes_ += markup(R"(<path class="grid" d="M{} {}H{}" stroke="#d5dbe3"/>)", left, y(tick), right);
    axes_ += ink(left - 6, y(tick), text(tick), R"( dy="4" text-anchor="end")");
  }
}

void ChartFrame::y_label(const std::string& label) {
  const double middle = (top + bottom) / 2;
  axes_ += ink(12, middle, label,
               markup(" text-anchor=\"middle\" transform=\"rotate(-90 12 {})\"", middle));
}

void ChartFrame::legend(const std::vector<std::string>& names) {
  std::vector<NamedColor> colors;
  for (const std::string& name : names) colors.push_back({name, series_color(colors.size())});
  legend_ = parallel::legend(colors, right - left);
}

void ChartFrame::strip(double low, double high, const std::string& text) {
  double from = std::max(x(low), left), to = std::min(x(high), right);
  strips_ += markup(R"(<rect x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>)", from,
                    top, std::max(to - from, 0.5), bottom - top, escape(text));
}

std::string ChartFrame::svg(const std::string& title) const {
  const double above = top - legend_.height - 8;  // negative where the legend has several lines
  const double from = std::min(above, 0.0);
  return chart_svg(title, from, height - from,
                   markup("<g transform=\"translate({} {})\">{}</g>\n<g>{}</g>\n<g>{}</g>\n"
                          R"(<g class="strips" fill="#fff" fill-opacity="0">{}</g>)",
                          left, above, legend_.svg, axes_, body_, strips_),
                   R"( font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif")");
}

}  // namespace plangrad::parallel
