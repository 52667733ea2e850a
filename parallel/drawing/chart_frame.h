// The frame of a chart: axes, ticks, a legend, and strips to hover over.
// Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/drawing/timeline_figure.h"

namespace paragrad::parallel {

/// Fills and strokes that stay apart for colour-blind eyes, on light and dark.
const std::string& series_color(std::size_t index);

class ChartFrame {
 public:
  /// The axes' ends; `unit` turns a tick of the y axis into text.
  ChartFrame(double x_low, double x_high, double y_low, double y_high)
      : x_low_(x_low), x_high_(x_high), y_low_(y_low), y_high_(y_high) {}

  double x(double value) const;  ///< pixels
  double y(double value) const;
  double bottom() const { return height - 40; }

  void x_axis(const std::string& label, double per_unit = 1);
  void y_axis(std::string (*text)(double));
  void legend(const std::vector<std::string>& names);  ///< takes the place that it needs
  void legend(const std::vector<NamedColor>& colors);
  /// A strip from x = low to high, of the chart's height, that says `text`.
  void strip(double low, double high, const std::string& text);
  void add(const std::string& svg) { body_ += svg; }
  std::string svg(const std::string& title) const;

  static constexpr double width = 560, height = 270, left = 62, right = 14, top = 34;

 private:
  double x_low_, x_high_, y_low_, y_high_;
  Legend legend_;
  std::string axes_, body_, strips_;
};

}  // namespace paragrad::parallel
