// Pretended: the devices and links that a run pretends to have, in the simulator's terms.
// Not here: how a run is slowed down to them (engine/pretended_time.h,
// transports/pretended_links.h).
// Chapter 06.
//
// A message between two ranks takes latency + bytes / bandwidth in a run and in the simulator, and
// the next one of its queue begins after it. In three things the simulator is simpler than a run:
// collectives   costs.h counts rounds one after another, as in a ring. In a run, pieces follow each
//               other without waiting for the latency, and scatter-reduce sends to all members at
//               once, so a sum takes less time, unless ranks share a card
// links         in a run, messages of groups and of pairs share the link of two ranks; the
//               simulator lets them overlap
// cards         the simulator has none
#pragma once

#include "parallel/simulation/costs.h"

namespace plangrad::parallel {

/// Times in seconds, lists with a value for each stage or one for all stages. 0 means that nothing
/// is pretended: a computation takes as long as its arithmetic, links are as they are.
struct Pretended {
  std::vector<double> forward = {0};   ///< of a microbatch; also if it is computed again
  std::vector<double> backward = {0};  ///< of a microbatch; I and W take half each
  std::vector<double> step = {0};      ///< a list has one value more, the tied stage's
  double latency = 0;                  ///< every message's; counts if there is a bandwidth
  double bandwidth = 0;                ///< bytes per second of every link, each way
  int ranks_per_card = 0;  ///< ranks of a host share a network card; 0: each pair has its own link

  bool computes() const;
  bool links() const { return bandwidth > 0; }

  /// Seconds that a computation takes at least; 0 for all that is no computation.
  double seconds(const Plan& plan, const Instruction& x) const;
  /// How many computations of a plan have a pretended time.
  int computations(const Plan& plan) const;
  /// Measured costs, with the pretended ones in their place. The simulator gives each pair of ranks
  /// a link of its own, also where ranks share cards.
  ///   measured: with a value for each stage of the plan
  Costs instead_of(Costs measured, const Plan& plan) const;
};

}  // namespace plangrad::parallel
