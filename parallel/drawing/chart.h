// Charts of curves as SVG; and a chart's frame: axes, ticks, a legend, and strips that carry the
// values as titles, which a browser shows on hovering.
// Not here: pages, whose scripts draw their own (examples/pages/).
// Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {

/// throws: Error if a series has unequal x and y
std::string curve_chart(const Curve& curve);

// ---- what charts are made of (chart_frame.cpp) ----

/// Fills and strokes that stay apart for colour-blind eyes, on light and dark.
const std::string& series_color(std::size_t index);

constexpr double chart_width = 560;  ///< every chart's, in pixels
/// A chart as an SVG element, from `top` down.
std::string chart_svg(const std::string& title, double top, double height, const std::string& body,
                      const std::string& attributes = "");

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

}  // namespace plangrad::parallel
