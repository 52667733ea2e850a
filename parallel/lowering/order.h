// Order: what a first walk learns for the second: in which order ranks make the steps of a stage,
// so that a finished sum visits them in this order, and in which they use weights that travel.
// Chapter 08.
#pragma once

#include <deque>

#include "parallel/lowering/walk.h"

namespace paragrad::parallel {

struct Order {
  /// Uses of a version by one rank, one after the other with no other rank's between.
  struct Run {
    int rank;
    Instruction last;
  };
  std::map<Walk::Cell, std::deque<int>> steppers;  // ranks, by (stage, version made)
  std::map<Walk::Cell, std::deque<Run>> users;     // by (stage, version read), if there are homes
};

Order learn_order(const Plan& computations);

}  // namespace paragrad::parallel
