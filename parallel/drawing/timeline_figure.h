// The figure of a timeline in a given layout; draw_svg chooses the layout.
// Not here: what a timeline is (plan/timeline.h). Chapter 06.
#pragma once

#include "parallel/drawing/draw.h"

namespace plangrad::parallel {

struct FigureLayout {
  double pixels_per_second = 0;
  double seconds = 0;        ///< length of the axis; records that begin later are left out
  double cell_seconds = 0;   ///< length of a typical forward
  int ranks = 0;             ///< how many ranks are drawn, from rank 0 on
  FigureOptions shown = {};  ///< what the figure shows besides the ranks
};

/// A layout whose forwards are about 22 pixels wide, or show stage and version if they have
/// several, if the axis is then between 560 and 2400 pixels long or as `options` say. What does not
/// fit even with cells of 9 pixels is cut.
/// throws: Error if nothing in the timeline takes time, or the width leaves no room for it
FigureLayout suitable_layout(const Timeline& timeline, const FigureOptions& options = {});

/// The pixels left of the axis, for the names of ranks, and right of it, for their idle shares.
double left_margin(int ranks);
constexpr double right_margin = 48;

std::string timeline_figure(const Timeline& timeline, const FigureLayout& layout);

/// The places of a figure's rows, in pixels.
struct TimelineGrid {
  double per_second = 0, left = 0, width = 0;
  double cell = 0;          ///< height of a cell
  std::vector<double> top;  ///< the upper edge of each rank's cells

  double x(double seconds) const { return seconds * per_second; }
};

// ---- what stands between and above the cells (timeline_cells.cpp) ----

/// Lines from where messages are sent to where they arrive, behind the cells; none if too many.
std::string message_lines(const Timeline& timeline, const FigureLayout& layout,
                          const TimelineGrid& grid);
/// Marks a computation of the critical path, by a line at its bottom, or a message, by its outline.
std::string underline(double from, double wide, double bottom);
std::string outline(double from, double wide, double top, double high);
/// Marks at the first and last cell of each body of an endless plan, and the names of its parts.
struct RepeatMarks {
  std::string marks, words;
};
RepeatMarks repeat_bars(const Timeline& timeline, const FigureLayout& layout,
                        const TimelineGrid& grid);
/// The cell that breaks a rule, in red.
std::string fault_mark(const Fault& fault, const TimelineGrid& grid);
/// A short bar at the bottom of a cell, further right for later stages of its rank; nothing if the
/// rank has one stage.
std::string stage_mark(const std::vector<int>& stages_of_rank, int stage, double from, double wide,
                       double bottom);

// ---- what a figure says about a timeline ----

/// For each rank, the stages that it computes, ascending.
std::vector<std::vector<int>> computed_stages(const Timeline& timeline);
/// The share of the timeline that each rank does not compute.
std::vector<double> idle_of_ranks(const Timeline& timeline);

/// The width of a label in a cell, in pixels, from its size and its number of characters.
double label_width(double font_size, std::size_t characters);
/// The approximate width of a figure's text, in pixels.
inline double text_width(const std::string& text) { return 6.1 * static_cast<double>(text.size()); }

// ---- colours and legends (timeline_legend.cpp) ----

/// A legend: the meanings of colours and `labels`, in lines no longer than `width` pixels.
struct Legend {
  std::string svg;
  double height = 0;
};
Legend legend(const Timeline& timeline, double width, const FigureOptions& shown = {},
              const std::string& labels = "");

/// Fill and text colour of a computation: its hue is the direction, its lightness the version.
struct CellColor {
  const char *fill, *text;
};
CellColor cell_color(const Instruction& instruction);
/// Whether a name of the palette is a colour of lines and bars in figures.
bool is_message_color(const std::string& name);

// ---- what stands in the cells (timeline_cells.cpp) ----

/// The labels of cells: the microbatch and, where a row has room for it, the stage and the version
/// below. All cells of a row have the same lines.
class CellLabels {
 public:
  CellLabels(const Timeline& timeline, const FigureLayout& layout);

  /// The height of a cell with room for all lines of a label.
  double cell_height() const;
  /// The label of a cell `wide` pixels wide, centred in it: empty if there is no room for one.
  /// `low` cells have room for one line.
  std::string svg(const Record& record, double from, double wide, double top, double height,
                  bool low) const;
  /// The legend's words on labels: "number: microbatch, s: stage"; empty if all are microbatches.
  std::string explanation() const;
  /// Whether the cells of a rank name their stages.
  bool names_stages(int rank) const { return rows_.at(rank).stage; }

 private:
  struct Lines {
    bool stage = false, version = false;
  };
  bool has_room(const Timeline& timeline, int rank, std::size_t characters) const;

  const FigureLayout& layout_;
  bool several_stages_ = false;                                              // a rank has
  std::vector<Lines> rows_;                                                  // by rank
  std::size_t longest_micro_ = 1, longest_stage_ = 0, longest_version_ = 0;  // in characters
};

/// Whether the computations of the timeline read several versions of the weights.
bool has_several_versions(const Timeline& timeline);

// ---- lanes below the computations (timeline_lanes.cpp) ----

/// The values that one rank holds, as bars over time, one below the other while they live together.
/// Shards are thin bars.
struct HeldLanes {
  double height = 0;
  std::string cells, labels;
};
HeldLanes held_lanes(const std::vector<Holding>& held, int rank, const FigureLayout& layout,
                     double top);

/// Bars over time that are as high as activations are many; `most` fill the height.
std::string alive_bars(const std::vector<Level>& levels, int most, const FigureLayout& layout,
                       double top, double height);

}  // namespace plangrad::parallel
