// draw: timelines as text, as a figure, as a trace for Perfetto, and as a page to explore; the page
// is also the report of a training run. Not here: where timelines come from (simulate, engine).
// Chapter 06.
//
// The room parallel/drawing makes pictures of timelines, and of what a run leaves:
// draw_text.cpp, draw_svg.cpp, draw_trace.cpp, draw_html.cpp   the four forms
// timeline_figure.h   ranks as lanes, with timeline_legend.cpp
// breakdown_table.h   where the time goes, as a table
// chart.h             the parts of a page: curves, memory, traffic, bits; its style and script
// figure.h            numbers, axes, markup
// Only the session and the program `plan` use this room. What is drawn is what ran.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "parallel/simulation/timeline.h"

namespace paragrad::parallel {

/// The bytes of a category that are alive on a rank from time `seconds` on. Lists of samples are in
/// the order of time.
struct MemorySample {
  int rank = 0;
  double seconds = 0;
  std::string category;
  std::int64_t bytes = 0;
};

/// The bytes of one kind that a rank sent.
struct Traffic {
  int rank = 0;
  std::string kind;
  std::int64_t bytes = 0;
};

struct Series {
  std::string name;
  std::vector<double> x, y;  ///< points with a y that is not finite are left out
};

struct Curve {
  std::string title, x_label, y_label;
  std::vector<Series> series;
};

/// A timeline in a report, whose panels share one scale of time.
struct Panel {
  std::string title;
  Timeline timeline;
  std::vector<int> path = {};  ///< the critical path, as places in the timeline; empty: not marked
};

/// A table: its first row has the names of columns, the first column those of rows.
struct Table {
  std::string title;
  std::vector<std::vector<std::string>> rows;
};

/// The bits per element that layers have on the wire from the update after `step` on.
struct BitChange {
  int step = 0;
  std::map<std::string, int> bits;  ///< by layer
};

/// The contents of a page, from top to bottom; empty parts are left out.
struct Report {
  std::string title;
  std::vector<std::pair<std::string, std::string>> facts;  ///< name, value
  std::vector<Panel> panels;
  std::vector<Curve> curves;
  std::vector<MemorySample> memory;
  std::vector<Traffic> traffic;      ///< less than 1 kB in all is left out, too
  std::vector<Sending> sent = {};    ///< in the first panel; shown if `traffic` is
  std::vector<BitChange> bits = {};  ///< in the order of steps
  std::string memory_of = {};        ///< the part that samples cover: "steps 2 to 5"
  std::string note = {};             ///< the page's first line, below its title
  std::vector<Table> tables = {};    ///< below the panels
};

/// A table with a row per rank and a column per unit of time, the shortest forward or backward:
///   rank 0  0F0 0F1 ... 0B0
/// --- continues a cell, ... is idle. Rows end after `columns` columns; a last line then says so.
/// In an endless plan a | stands before the first cell of each body, and after the last one.
/// throws: Error if nothing takes time
std::string draw_text(const Timeline& timeline, int columns = 40);

/// What a figure shows besides the ranks, and how large it is. Figures of equal seconds and width
/// have one scale of time, and can be compared.
struct FigureOptions {
  bool alive = false;          ///< adds a lane of the activations that are alive on all ranks
  double seconds = 0;          ///< length of the time axis; 0: the timeline's
  double width = 0;            ///< of the whole figure, in pixels; 0: what suits its cells
  std::vector<int> path = {};  ///< records of the critical path, which are underlined or, as
                               ///< messages, outlined
};

/// A figure for light and dark backgrounds. A rank has two lanes: computations, coloured by their
/// weight version, and messages below. Very long timelines are cut, and the figure says so.
/// throws: Error if nothing takes time, or the width leaves no room for it
std::string draw_svg(const Timeline& timeline, const FigureOptions& options = {});

/// JSON in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open.
std::string draw_trace(const Timeline& timeline, const std::vector<MemorySample>& memory = {});

/// One HTML page that needs no network: hover over a cell to read it, zoom, pan.
/// throws: Error if nothing in a panel takes time, or series have unequal x and y
std::string draw_html(const Report& report);

/// The bytes that each rank of a timeline sent, by kind.
std::vector<Traffic> traffic(const Timeline& timeline);

}  // namespace paragrad::parallel
