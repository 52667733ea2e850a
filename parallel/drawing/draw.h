// draw: timelines as text, as a figure, and as a trace for Perfetto.
// Not here: pages (examples/pages/), where timelines come from (simulate, engine). Chapter 06.
//
// The room parallel/drawing makes pictures of timelines, and of what a run leaves:
// draw_text.cpp, draw_svg.cpp, draw_trace.cpp   the three forms
// timeline_figure.h   ranks as lanes; timeline_cells.cpp: labels, lines and marks;
//                     timeline_lanes.cpp: what ranks hold; timeline_legend.cpp
// figure.h            numbers, axes, markup, colours (palette.cpp)
// Observers, pages and the program `plan` use this room. What is drawn is what ran.
#pragma once

#include <optional>

#include "parallel/simulation/holdings.h"
#include "parallel/simulation/time_steps.h"

namespace plangrad::parallel {

/// A timeline with a title.
struct Panel {
  std::string title;
  Timeline timeline;
};

/// A table with a row per rank and a column per unit of time, the shortest forward or backward:
///   rank 0  0F0 0F1 ... 0B0
/// --- continues a cell, ... is idle. Rows end after `columns` columns; a last line then says so.
/// In an endless plan a | stands before the first cell of each body, and after the last one.
/// throws: Error if nothing takes time
std::string draw_text(const Timeline& timeline, int columns = 40);

/// A cell that breaks a rule, and what the verifier says about it.
struct Fault {
  Record record;
  std::string sentence;
};

/// What a figure shows besides the ranks, and how large it is. Figures of equal seconds and width
/// have one scale of time, and can be compared.
struct FigureOptions {
  bool alive = false;          ///< adds a lane of the activations that are alive on all ranks
  double seconds = 0;          ///< length of the time axis; 0: the timeline's
  double width = 0;            ///< width of the whole figure, in pixels; 0: what suits its cells
  std::vector<int> path = {};  ///< records of the critical path, which are underlined or, as
                               ///< messages, outlined
  std::vector<Holding> held = {};   ///< drawn as lanes below their ranks
  std::string note = {};            ///< a line at the end of the legend
  std::optional<Fault> fault = {};  ///< drawn in red, with the sentence below the figure
};

/// A figure for light and dark backgrounds. A rank has two lanes: computations, whose hue is their
/// direction and whose lightness their weight version, and messages below; those that take no time
/// are lines alone. Idle time is hatched, and its share ends the row. Very long timelines are cut,
/// and the figure says so.
/// throws: Error if nothing takes time, or the width leaves no room for it
std::string draw_svg(const Timeline& timeline, const FigureOptions& options = {});

/// The figure of a plan that breaks a rule, up to the cell that breaks it. Costs are those of the
/// plan; `sentence` says what is wrong.
///   index: of the cell in its row; the row's length or more: the end of the row
/// throws: Error as draw_svg does, also if nothing of the plan can be drawn
std::string draw_fault(const Plan& plan, int rank, int index, const std::string& sentence,
                       const Costs& costs, FigureOptions options = {});

/// JSON in Chrome's trace format, which ui.perfetto.dev and chrome://tracing open. Each panel is a
/// group of processes, one for each rank, whose names end with the panel's title; an arrow leads
/// from each send to its receive. `memory` belongs to the first panel; what it shows of a category
/// are about 200 moments, the peak among them.
std::string draw_trace(const std::vector<Panel>& panels,
                       const std::vector<MemorySample>& memory = {});

}  // namespace plangrad::parallel
