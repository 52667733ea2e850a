// The figure of a timeline in a given layout; draw_svg and draw_html choose the layout.
// Not here: what a timeline is (simulation/timeline.h). Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/drawing/draw.h"
#include "parallel/simulation/timeline.h"

namespace paragrad::parallel {

struct FigureLayout {
  double pixels_per_second = 0;
  double seconds = 0;          ///< length of the axis; records that begin later are left out
  double cell_seconds = 0;     ///< length of a typical forward
  int ranks = 0;               ///< how many ranks are drawn, from rank 0 on
  bool alive = false;          ///< adds a lane of the activations that are alive
  bool zoomable = false;       ///< for a script: hides labels that are too wide, leaves none out
  std::vector<int> path = {};  ///< records to mark, as places in the timeline
};

/// A layout whose forwards are about 22 pixels wide, or show stage and microbatch if ranks have
/// several stages, if the axis is then between 560 and 2400 pixels long or as `options` say. What
/// does not fit even with cells of 9 pixels is cut.
/// throws: Error if nothing in the timeline takes time, or the width leaves no room for it
FigureLayout suitable_layout(const Timeline& timeline, const FigureOptions& options = {});

/// The pixels left of the axis, for the names of ranks, and right of it.
double left_margin(int ranks);
constexpr double right_margin = 12;

/// Whether a rank has computations of several stages, whose cells then name the stage.
bool has_several_stages(const Timeline& timeline);

/// The width of a label in a cell, in pixels, from its size and its number of characters.
double label_width(double font_size, std::size_t characters);

std::string timeline_figure(const Timeline& timeline, const FigureLayout& layout);

/// A legend: the meanings of colours, in lines no longer than `width` pixels.
struct Legend {
  std::string svg;
  double height = 0;
};
Legend legend(const Timeline& timeline, double width, bool path = false);

struct NamedColor {
  std::string name, color;
};
Legend legend(const std::vector<NamedColor>& colors, double width);

/// The approximate width of a figure's text, in pixels.
double text_width(const std::string& text);

/// Fill and text colour of a computation: forwards cool, backwards warm, one shade per version; the
/// four shades of each repeat.
struct CellColor {
  const char *fill, *text;
};
constexpr int version_colors = 4;
CellColor cell_color(const Instruction& instruction);
std::string message_color(const std::string& kind);

}  // namespace paragrad::parallel
