// The parts of a report's page: charts in SVG, style and script; and a chart's frame: axes, ticks,
// a legend, and strips that carry the values as titles, which a browser shows on hovering.
// Not here: the page (draw_html.cpp).
// Chapter 06.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/drawing/figure.h"
#include "parallel/drawing/timeline_figure.h"

namespace paragrad::parallel {

/// throws: Error if a series has unequal x and y
std::string curve_chart(const Curve& curve);

/// The categories of one rank, stacked. Each of the 300 columns shows its highest moment. `highest`
/// (bytes) and `seconds` are the ends of the axes, so that ranks can be compared.
std::string memory_chart(const std::vector<MemorySample>& samples, int rank, double highest,
                         double seconds);
/// The most bytes that live together on any rank.
double peak_memory(const std::vector<MemorySample>& samples);

/// One category, of all ranks together.
struct MemoryTotal {
  std::vector<std::pair<double, double>> levels;  ///< from these seconds on, so many bytes
  double peak = 0, mean = 0;                      ///< bytes; the mean is one over time
};
MemoryTotal memory_total(std::vector<MemorySample> samples, const std::string& category);
/// Each of the 300 columns shows its highest moment; the peak is marked. The axis ends at `highest`
/// bytes, so that runs can be compared, or over the peak.
std::string memory_total_chart(const MemoryTotal& total, const std::string& category,
                               double seconds, double highest = 0);

/// A row a layer, a column a choice; the darker, the more bits.
std::string bits_chart(const std::vector<BitChange>& changes);

/// A bar a rank.
std::string traffic_chart(const std::vector<Traffic>& traffic);

/// A bar a slot of time: what all ranks begin to send in it. The axis ends at `highest` bytes, or
/// at the highest bar.
std::string flow_chart(const std::vector<Sending>& sent, double slot, double seconds,
                       double highest = 0);
/// A slot is a time step, or several, so that there are at most 300 of them.
double slot_length(double time_step, double seconds);

extern const char* const page_style;   ///< CSS
extern const char* const page_script;  ///< JavaScript

// ---- what charts are made of (chart_frame.cpp) ----

/// Fills and strokes that stay apart for colour-blind eyes, on light and dark.
const std::string& series_color(std::size_t index);

/// Bytes by name, as charts stack them.
using Parts = std::map<std::string, double>;
double sum(const Parts& parts);
/// A line for each part: "\nweights: 1 kB".
std::string lines(const Parts& parts);

constexpr double chart_width = 560;  ///< pixels, of every chart
/// A chart as an SVG element, from `top` down.
std::string chart_svg(const std::string& title, double top, double height, const std::string& body,
                      const std::string& attributes = "");

class ChartFrame {
 public:
  /// The axes' ends.
  ChartFrame(double x_low, double x_high, double y_low, double y_high)
      : x_low_(x_low), x_high_(x_high), y_low_(y_low), y_high_(y_high) {}
  /// Bytes from 0 to `highest` over time from 0 to `seconds`.
  ChartFrame(double highest, double seconds, const TimeUnit& unit)
      : ChartFrame(0, seconds, 0, highest) {
    y_axis(bytes_text);
    x_axis(unit.name, unit.per_second);
  }

  double x(double value) const;  ///< pixels
  double y(double value) const;

  void x_axis(const std::string& label, double per_unit = 1);
  void y_axis(std::string (*text)(double));            ///< `text` writes a tick
  void legend(const std::vector<std::string>& names);  ///< takes the place that it needs
  void legend(const std::vector<NamedColor>& colors);
  /// A strip from x = low to high, of the chart's height, that says `text`.
  void strip(double low, double high, const std::string& text);
  void add(const std::string& svg) { body_ += svg; }
  std::string svg(const std::string& title) const;

  static constexpr double left = 62, right = chart_width - 14;  ///< of the axes, in pixels
  static constexpr double top = 34, bottom = 230, height = 270;

 private:
  double x_low_, x_high_, y_low_, y_high_;
  Legend legend_;
  std::string axes_, body_, strips_;
};

}  // namespace paragrad::parallel
