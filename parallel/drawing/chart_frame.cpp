// Axes, legend and strips of charts.
// Not here: what they show (chart_*.cpp).
// Chapter 06.
#include "parallel/drawing/chart_frame.h"

#include <fmt/format.h>

#include <algorithm>

#include "parallel/drawing/figure.h"

namespace paragrad::parallel {

using fmt::format;

const std::string& series_color(std::size_t index) {
  static const std::vector<std::string> colors = {"#3b82c4", "#e07b39", "#2f9e5b", "#9b5de5",
                                                  "#d1495b", "#c9a227", "#5c7c8a"};
  return colors[index % colors.size()];
}

double ChartFrame::x(double value) const {
  double part = x_high_ > x_low_ ? (value - x_low_) / (x_high_ - x_low_) : 0.5;
  return left + part * (width - left - right);
}

double ChartFrame::y(double value) const {
  double part = y_high_ > y_low_ ? (value - y_low_) / (y_high_ - y_low_) : 0.5;
  return bottom() - part * (bottom() - top);
}

void ChartFrame::x_axis(const std::string& label, double per_unit) {
  for (double tick : ticks(x_low_ * per_unit, x_high_ * per_unit, 6)) {
    const std::string text = format("{:.6g}", tick);
    double last = width - text_width(text) / 2 - 1;  // where it is not cut
    axes_ += format(R"(<text class="ink" x="{}" y="{}" text-anchor="middle">{}</text>)",
                    number(std::min(x(tick / per_unit), last)), number(bottom() + 16), text);
  }
  axes_ += format(R"(<text class="ink" x="{}" y="{}" text-anchor="end">{}</text>)",
                  number(width - right), number(bottom() + 32), escape(label));
}

void ChartFrame::y_axis(std::string (*text)(double)) {
  for (double tick : ticks(y_low_, y_high_, 5)) {
    std::string at = number(y(tick));
    axes_ +=
        format(R"(<path class="grid" d="M{} {}H{}" stroke="#d5dbe3"/>)", left, at, width - right);
    axes_ += format(R"(<text class="ink" x="{}" y="{}" dy="4" text-anchor="end">{}</text>)",
                    left - 6, at, text(tick));
  }
}

void ChartFrame::legend(const std::vector<std::string>& names) {
  std::vector<NamedColor> colors;
  for (const std::string& name : names) colors.push_back({name, series_color(colors.size())});
  legend(colors);
}

void ChartFrame::legend(const std::vector<NamedColor>& colors) {
  legend_ = parallel::legend(colors, width - left - right);
}

void ChartFrame::strip(double low, double high, const std::string& text) {
  double from = std::max(x(low), left), to = std::min(x(high), width - right);
  strips_ +=
      format(R"(<rect x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>)", number(from),
             top, number(std::max(to - from, 0.5)), number(bottom() - top), escape(text));
}

std::string ChartFrame::svg(const std::string& title) const {
  const double above = top - legend_.height - 8;  // negative where the legend has several lines
  const double from = std::min(above, 0.0);
  return format(R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" )"
                R"(aria-label="{}" viewBox="0 {} {} {}" font-size="11" )"
                R"(font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif">)"
                "<g transform=\"translate({} {})\">{}</g>\n<g>{}</g>\n<g>{}</g>\n"
                R"(<g class="strips" fill="#fff" fill-opacity="0">{}</g></svg>)"
                "\n",
                escape(title), from, width, height - from, left, above, legend_.svg, axes_, body_,
                strips_);
}

}  // namespace paragrad::parallel
