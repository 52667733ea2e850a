// Lanes below the computations of a timeline's figure: what a rank holds, and activations of all.
// Not here: when values live (simulation/holdings.h). Chapters 06 to 09.
#pragma once

#include <string>
#include <vector>

#include "parallel/drawing/timeline_figure.h"

namespace plangrad::parallel {

/// The values that one rank holds, as bars over time, one below the other while they live together.
/// Shards are thin bars.
class HeldLanes {
 public:
  HeldLanes(const std::vector<Holding>& held, int rank, const FigureLayout& layout, double top);

  double height() const { return height_; }
  const std::string& cells() const { return cells_; }
  const std::string& labels() const { return labels_; }

 private:
  void add(const Holding& holding, const FigureLayout& layout, double y, double high);

  double height_ = 0;
  std::string cells_, labels_;
};

/// Bars over time that are as high as activations are many; `most` fill the height.
std::string alive_bars(const std::vector<Level>& levels, int most, const FigureLayout& layout,
                       double top, double height);

}  // namespace plangrad::parallel
