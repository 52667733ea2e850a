// Pairing: which send meets which recv, and which cells of a group meet. It follows from the rows
// alone: messages between two ranks, and those of a group, come first in, first out.
// Not here: what they carry (replay), and whether the meeting ever happens (hang).
// Chapter 04.
#pragma once

#include <vector>

#include "parallel/plan/plan.h"

namespace paragrad::parallel {

/// The messages from one rank to another: the k-th send meets the k-th recv.
struct Wire {
  int from, to;
  std::vector<int> sends, recvs;  ///< cells of the two rows
};

/// A reduction, norm or gather: one cell of each member's row, in the group's order.
struct Meeting {
  int group;
  std::vector<int> cells;
};

struct Pairing {
  /// Where a cell belongs.
  struct End {
    int wire = -1, number = -1;  ///< of a send or recv: its wire, and its index there
    int meeting = -1;
  };
  std::vector<Wire> wires;
  std::vector<Meeting> meetings;
  std::vector<std::vector<End>> ends;  ///< by rank and cell
};

/// throws: PlanError, rule match, together, or end (a message is never received)
Pairing pair_up(const Plan& plan);

}  // namespace paragrad::parallel
