// Charts of curves as SVG, for benchmarks; and a chart's frame: axes, ticks, a legend, and strips
// that carry the values as titles, which a browser shows on hovering.
// Not here: timelines (parallel/drawing/). Chapter 06.
#pragma once

#include <cmath>
#include <set>

#include "autograd/error.h"
#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {

struct Series {
  std::string name;
  std::vector<double> x, y;  ///< points with a y that is not finite are left out
};

struct Curve {
  std::string title, x_label, y_label;
  std::vector<Series> series;
};

/// Fills and strokes that stay apart for colour-blind eyes, on light and dark.
inline const std::string& series_color(std::size_t index) {
  static const std::vector<std::string> colors = {"#3b82c4", "#e07b39", "#2f9e5b", "#9b5de5",
                                                  "#d1495b", "#c9a227", "#5c7c8a"};
  return colors[index % colors.size()];
}

constexpr double chart_width = 560;  ///< every chart's, in pixels
/// A chart as an SVG element, from `top` down.
inline std::string chart_svg(const std::string& title, double top, double height,
                             const std::string& body, const std::string& attributes = "") {
  return markup(
      R"(<svg xmlns="http://www.w3.org/2000/svg" class="chart" role="img" )"
      R"(aria-label="{}" width="{}" height="{}" viewBox="0 {} {} {}" font-size="11"{}>{}{}</svg>)"
      "\n",
      escape(title), chart_width, height, top, chart_width, height, attributes, dark_style,
      paper(0, top, chart_width, height) + body);
}

class ChartFrame {
 public:
  /// A frame whose axes have these ends.
  ChartFrame(double x_low, double x_high, double y_low, double y_high)
      : x_low_(x_low), x_high_(x_high), y_low_(y_low), y_high_(y_high) {}
  double x(double value) const;  ///< pixels
  double y(double value) const;

  void x_axis(const std::string& label, double per_unit = 1);
  void y_axis(std::string (*text)(double));            ///< `text` writes a tick
  void y_label(const std::string& label);              ///< beside the axis, upwards
  void legend(const std::vector<std::string>& names);  ///< as high as its entries need
  /// A strip from x = low to high, of the chart's height, that says `text`.
  void strip(double low, double high, const std::string& text);
  void add(const std::string& svg) { body_ += svg; }
  std::string svg(const std::string& title) const;

  static constexpr double left = 62, right = chart_width - 14;  ///< the axes' ends, in pixels
  static constexpr double top = 34, bottom = 230, height = 270;

 private:
  double x_low_, x_high_, y_low_, y_high_;
  Legend legend_;
  std::string axes_, body_, strips_;
};

inline double ChartFrame::x(double value) const {
  double part = x_high_ > x_low_ ? (value - x_low_) / (x_high_ - x_low_) : 0.5;
  return left + part * (right - left);
}

inline double ChartFrame::y(double value) const {
  double part = y_high_ > y_low_ ? (value - y_low_) / (y_high_ - y_low_) : 0.5;
  return bottom - part * (bottom - top);
}

inline void ChartFrame::x_axis(const std::string& label, double per_unit) {
  for (double tick : ticks(x_low_ * per_unit, x_high_ * per_unit, 6)) {
    const std::string text = fmt::format("{:.6g}", tick);
    double last = chart_width - text_width(text) / 2 - 1;  // where it is not cut
    axes_ += ink(std::min(x(tick / per_unit), last), bottom + 16, text, R"( text-anchor="middle")");
  }
  axes_ += ink(right, bottom + 32, label, R"( text-anchor="end")");
}

inline void ChartFrame::y_axis(std::string (*text)(double)) {
  for (double tick : ticks(y_low_, y_high_, 5)) {
    axes_ += markup(R"(<path class="grid" d="M{} {}H{}" stroke="#d5dbe3"/>)", left, y(tick), right);
    axes_ += ink(left - 6, y(tick), text(tick), R"( dy="4" text-anchor="end")");
  }
}

inline void ChartFrame::y_label(const std::string& label) {
  const double middle = (top + bottom) / 2;
  axes_ += ink(12, middle, label,
               markup(" text-anchor=\"middle\" transform=\"rotate(-90 12 {})\"", middle));
}

inline void ChartFrame::legend(const std::vector<std::string>& names) {
  double at = 0, line = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const double wide = text_width(names[i]);
    if (at > 0 && at + (19 + wide) > right - left) at = 0, line += 20;
    legend_.svg += markup(R"(<rect class="message" x="{}" y="{}" width="14" height="5" )"
                          R"(fill="{}"/>)",
                          at, line + 4.5, series_color(i));
    at += 19;
    legend_.svg += ink(at, line + 11, names[i]);
    at += wide + 14;
  }
  legend_.height = line + 20;
}

inline void ChartFrame::strip(double low, double high, const std::string& text) {
  double from = std::max(x(low), left), to = std::min(x(high), right);
  strips_ += markup(R"(<rect x="{}" y="{}" width="{}" height="{}"><title>{}</title></rect>)", from,
                    top, std::max(to - from, 0.5), bottom - top, escape(text));
}

inline std::string ChartFrame::svg(const std::string& title) const {
  const double above = top - legend_.height - 8;  // negative where the legend has several lines
  const double from = std::min(above, 0.0);
  return chart_svg(title, from, height - from,
                   markup("<g transform=\"translate({} {})\">{}</g>\n<g>{}</g>\n<g>{}</g>\n"
                          R"(<g class="strips" fill="#fff" fill-opacity="0">{}</g>)",
                          left, above, legend_.svg, axes_, body_, strips_),
                   R"( font-family="system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif")");
}

inline std::string plain(double value) { return fmt::format("{:.6g}", value); }

using Points = std::map<double, double>;  // y by x

inline Points finite_points(const Series& series) {
  PG_CHECK(series.x.size() == series.y.size(), "draw: series ", series.name, " has ",
           series.x.size(), " x and ", series.y.size(), " y, expected equal numbers");
  Points points;
  for (std::size_t i = 0; i < series.x.size(); ++i)
    if (std::isfinite(series.y[i])) points[series.x[i]] = series.y[i];
  return points;
}

inline void add_line(ChartFrame& frame, const Points& points, const std::string& color) {
  std::string path;
  for (auto [x, y] : points)
    path += markup("{}{} {}", path.empty() ? "M" : "L", frame.x(x), frame.y(y));
  frame.add(
      fmt::format(R"(<path d="{}" fill="none" stroke="{}" stroke-width="1.8"/>)", path, color));
  if (points.size() > 40) return;
  for (auto [x, y] : points)
    frame.add(
        markup(R"(<circle cx="{}" cy="{}" r="2.6" fill="{}"/>)", frame.x(x), frame.y(y), color));
}

/// Adds a strip for each x, or for at most 400 of them.
inline void add_strips(ChartFrame& frame, const Curve& curve, const std::vector<Points>& all) {
  std::set<double> unique;
  for (const Points& points : all)
    for (auto [x, y] : points) unique.insert(x);
  std::vector<double> xs(unique.begin(), unique.end());
  const std::size_t stride = xs.size() / 400 + 1;
  for (std::size_t i = 0; i < xs.size(); i += stride) {
    double before = xs[i - std::min(i, stride)], after = xs[std::min(i + stride, xs.size() - 1)];
    std::string text = fmt::format("{} {:.6g}", curve.x_label, xs[i]);
    for (std::size_t s = 0; s < all.size(); ++s)
      if (auto found = all[s].find(xs[i]); found != all[s].end())
        text += fmt::format("\n{}: {:.4g} {}", curve.series[s].name, found->second, curve.y_label);
    frame.strip((before + xs[i]) / 2, (xs[i] + after) / 2, text);
  }
}

/// throws: Error if a series has unequal x and y
inline std::string curve_chart(const Curve& curve) {
  std::vector<Points> all;
  std::vector<std::string> names;
  std::vector<double> xs, ys;
  for (const Series& series : curve.series) {
    all.push_back(finite_points(series));
    names.push_back(series.name);
    for (auto [x, y] : all.back()) xs.push_back(x), ys.push_back(y);
  }
  if (xs.empty()) xs = ys = {0};
  auto [x_low, x_high] = std::minmax_element(xs.begin(), xs.end());
  auto [y_low, y_high] = std::minmax_element(ys.begin(), ys.end());
  double margin = (*y_high - *y_low) * 0.05;
  ChartFrame frame(*x_low, *x_high, *y_low - margin, *y_high + margin);
  frame.y_axis(plain);
  frame.y_label(curve.y_label);
  frame.x_axis(curve.x_label);
  frame.legend(names);
  for (std::size_t i = 0; i < all.size(); ++i) add_line(frame, all[i], series_color(i));
  add_strips(frame, curve, all);
  return frame.svg(curve.title);
}

}  // namespace plangrad::parallel
