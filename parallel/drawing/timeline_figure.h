// The figure of a timeline, laid out as asked; draw_svg and draw_html choose how.
// Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/simulation/timeline.h"

namespace paragrad::parallel {

struct FigureLayout {
  double pixels_per_second = 0;
  double seconds = 0;       ///< length of the axis; records that begin later are left out
  double cell_seconds = 0;  ///< of a typical forward
  int ranks = 0;            ///< drawn, from rank 0 on
  bool alive = false;       ///< with a lane of the activations that are alive
  bool zoomable = false;    ///< labels that are too wide are there, hidden; a script moves things
};

/// Forwards have a width of about 22 pixels, if that makes the figure neither narrower than 560
/// pixels nor wider than 2400; what does not fit even with cells of 9 pixels is cut.
/// throws: Error if nothing in the timeline takes time
FigureLayout suitable_layout(const Timeline& timeline);

std::string timeline_figure(const Timeline& timeline, const FigureLayout& layout);

/// The colours' meanings, in lines no longer than `width` pixels.
struct Legend {
  std::string svg;
  double height = 0;
};
Legend legend(const Timeline& timeline, double width);

struct NamedColor {
  std::string name, color;
};
Legend legend(const std::vector<NamedColor>& colors, double width);

/// Pixels that a figure's text takes, about.
double text_width(const std::string& text);

/// Fill and text colour of a computation: forward cool, backward warm, one shade a version; there
/// are four of each, then they come again.
struct CellColor {
  const char *fill, *text;
};
constexpr int version_colors = 4;
CellColor cell_color(const Instruction& instruction);
std::string message_color(const std::string& kind);

}  // namespace paragrad::parallel
