// What stands in the cells of a timeline's figure: the microbatch and, where a row has room for it,
// the stage and the version below. Not here: cells and rows (timeline_figure.h).
// Chapter 06.
#pragma once

#include <string>
#include <vector>

#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {

class CellLabels {
 public:
  CellLabels(const Timeline& timeline, const FigureLayout& layout);

  /// The height of a cell with room for all lines of a label.
  double cell_height() const;
  /// The label of a cell `wide` pixels wide, centred in it: empty if there is no room for one.
  /// `low` cells have room for one line.
  std::string svg(const Record& record, double from, double wide, double top, double height,
                  bool low) const;
  /// The legend's words on labels: "number: microbatch, s: stage"; empty if labels are microbatches
  /// alone.
  std::string explanation() const;
  /// Whether the cells of a rank name their stages.
  bool names_stages(int rank) const { return rows_.at(rank).stage; }

 private:
  struct Lines {
    bool stage = false, version = false;
  };
  std::vector<std::string> words(const Record& record, bool low) const;
  bool has_room(const Timeline& timeline, int rank, std::size_t characters) const;
  std::string line(const std::string& words, double middle, double baseline, int size,
                   const char* color) const;

  const FigureLayout& layout_;
  bool several_stages_;
  std::vector<Lines> rows_;                                                  // by rank
  std::size_t longest_micro_ = 1, longest_stage_ = 0, longest_version_ = 0;  // in characters
};

/// The largest font size at which `characters` fit into `wide` pixels; 0 if none does.
int label_size(double wide, std::size_t characters);

/// Whether the computations of the timeline read several versions of the weights.
bool has_several_versions(const Timeline& timeline);

}  // namespace plangrad::parallel
