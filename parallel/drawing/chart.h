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

/// A chart of one rank's memory, its categories stacked. Each of the 300 columns shows its highest
/// moment. The axes end at `highest` (bytes) and `seconds`, so that ranks can be compared.
std::string memory_chart(const std::vector<MemorySample>& samples, int rank, double highest,
                         double seconds);
/// The most bytes that live together on any rank.
double peak_memory(const std::vector<MemorySample>& samples);

/// The bytes of one category on all ranks together.
struct MemoryTotal {
  std::vector<std::pair<double, double>> levels;  ///< (seconds, bytes from then on)
  double peak = 0, mean = 0;                      ///< bytes; the mean is one over time
};
MemoryTotal memory_total(std::vector<MemorySample> samples, const std::string& category);
/// Each of the 300 columns shows its highest moment; the peak is marked. The axis ends at `highest`
/// bytes, so that runs can be compared; if that is 0, it ends above the peak.
std::string memory_total_chart(const MemoryTotal& total, const std::string& category,
                               double seconds, double highest = 0);

/// A chart with a row per layer and a column per choice of bits; a darker cell has more bits.
std::string bits_chart(const std::vector<BitChange>& changes);

/// A chart of sent bytes with a bar per rank.
std::string traffic_chart(const std::vector<Traffic>& traffic);

/// A chart with a bar per slot of time: the bytes that all ranks begin to send in it. The axis ends
/// at `highest` bytes or, if that is 0, at the highest bar.
std::string flow_chart(const std::vector<Sending>& sent, double slot, double seconds,
                       double highest = 0);
/// The length of a slot in seconds: one time step, or several, so that there are at most 300 slots.
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

constexpr double chart_width = 560;  ///< every chart's, in pixels
/// A chart as an SVG element, from `top` down.
std::string chart_svg(const std::string& title, double top, double height, const std::string& body,
                      const std::string& attributes = "");

class ChartFrame {
 public:
  /// A frame whose axes have these ends.
  ChartFrame(double x_low, double x_high, double y_low, double y_high)
      : x_low_(x_low), x_high_(x_high), y_low_(y_low), y_high_(y_high) {}
  /// A frame for bytes from 0 to `highest` over time from 0 to `seconds`.
  ChartFrame(double highest, double seconds, const TimeUnit& unit)
      : ChartFrame(0, seconds, 0, highest) {
    y_axis(bytes_text);
    x_axis(unit.name, unit.per_second);
  }

  double x(double value) const;  ///< pixels
  double y(double value) const;

  void x_axis(const std::string& label, double per_unit = 1);
  void y_axis(std::string (*text)(double));            ///< `text` writes a tick
  void y_label(const std::string& label);              ///< beside the axis, upwards
  void legend(const std::vector<std::string>& names);  ///< as high as its entries need
  void legend(const std::vector<NamedColor>& colors);
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

}  // namespace paragrad::parallel
