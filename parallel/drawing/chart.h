// Charts for reports, in SVG: curves, memory over time, bytes sent. Strips over them carry the
// values as titles, which a browser shows on hovering. Not here: the page (draw_html.cpp).
// Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/draw.h"

namespace paragrad::parallel {

/// throws: Error if a series has unequal x and y
std::string curve_chart(const Curve& curve);

/// The categories of one rank, stacked. Each of the 300 columns shows its highest moment. `highest`
/// (bytes) and `seconds` are the ends of the axes, so that ranks can be compared.
std::string memory_chart(const std::vector<MemorySample>& samples, int rank, double highest,
                         double seconds);
/// The most bytes that live together on any rank.
double peak_memory(const std::vector<MemorySample>& samples);

/// A bar a rank.
std::string traffic_chart(const std::vector<Traffic>& traffic);

}  // namespace paragrad::parallel
