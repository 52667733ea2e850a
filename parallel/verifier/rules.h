// Rules: what the parts of the verifier share, and the rules that need no replay of rows: what a
// cell may look like, and which cells meet.
// Not here: what a row does with its values (replay.h). Chapters 04 and 06.
#pragma once

#include "parallel/verifier/verify.h"

namespace plangrad::parallel {

/// A cell of a plan; an index of -1 is the end of the row.
struct Place {
  const Plan& plan;
  int rank, index;

  const Instruction& instruction() const { return plan.rows[rank][index]; }
};

/// Numbers as a list: "[0, 1]".
std::string list(const std::vector<int>& numbers);

/// Throws a PlanError that names the broken rule, says what is wrong and shows the cell.
[[noreturn]] void refuse_text(const char* rule, const Place& place, const std::string& what);

template <class... Parts>
[[noreturn]] void refuse(const char* rule, const Place& place, const Parts&... what) {
  refuse_text(rule, place, text(what...));
}

/// Checks that the header makes sense and that instructions have the fields of their operations,
/// which name stages, microbatches, ranks and groups that exist. throws: PlanError, rule shape
void check_shape(const Plan& plan);
/// Checks that a message-driven plan makes the same sums in any order of its two lines of work
/// (plan/timeline.h). throws: PlanError, rule driven
void check_driven(const Plan& plan);

/// The messages from one rank to another: the k-th send meets the k-th recv.
struct Wire {
  int from, to;
  std::vector<int> sends, recvs;  ///< cells of the two rows
};

/// A reduction, norm or gather: one cell of each member's row, in the group's order.
struct Meeting {
  int group;
  int guide;               ///< the first of the members that meet most often
  std::vector<int> cells;  ///< -1: the member never joins
};

/// Which send meets which recv, and which cells of a group meet. This follows from the rows alone:
/// messages between two ranks, and meetings of a group, are first in, first out.
struct Pairing {
  /// The wire or meeting that a cell belongs to.
  struct End {
    int wire = -1, number = -1;  ///< the wire of a send or recv, and its index there
    int meeting = -1;
  };
  std::vector<Wire> wires;
  std::vector<Meeting> meetings;
  std::vector<std::vector<End>> ends;  ///< the end at each cell of each rank
};

/// Whether two cells give their message or meeting the same name.
bool have_same_name(const Instruction& a, const Instruction& b);

/// Pairs cells in their order. In a plan that breaks a rule, wires and meetings can lack ends, and
/// ends can have different names.
Pairing pairs_in_order(const Plan& plan);

/// Pairs all cells. throws: PlanError, rule match, together, or end (a message is never received)
Pairing pair_up(const Plan& plan);

}  // namespace plangrad::parallel
