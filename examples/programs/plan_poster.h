// Posters: the timelines of several plans on one scale of time, each with its name, its idea and
// its numbers. Not here: single timelines (parallel/drawing/draw.h). Chapters 06 and 07.
#pragma once

#include "examples/programs/plan_request.h"
#include "parallel/plan/timeline.h"

namespace plangrad::examples {

struct PosterEntry {
  std::string name, idea;
  std::vector<std::pair<std::string, std::string>> facts;  ///< a number, and what it counts
  parallel::Timeline timeline;
  int per_step = 1;  ///< microbatches of an update, in which cells are numbered
  int stages = 1;    ///< an activation of one of them is that part of a whole model's
};

struct Poster {
  std::string title, explanation;
  std::vector<PosterEntry> entries;
  double cell = 13;  ///< height of a cell, in pixels; low cells have no numbers
};

/// A figure 800 pixels wide, for light and dark backgrounds. Below each timeline lies an area: the
/// activations of all ranks together, on one scale.
/// throws: Error if nothing in a timeline takes time
std::string draw_poster(const Poster& poster);

/// The command `plan poster`.
Command poster_command();

}  // namespace plangrad::examples
