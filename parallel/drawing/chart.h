// Charts for reports, in SVG: curves, memory over time, bytes sent. Strips over them carry the
// values as titles, which a browser shows on hovering. Not here: the page (draw_html.cpp).
// Chapter 06.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "parallel/drawing/draw.h"

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

}  // namespace paragrad::parallel
