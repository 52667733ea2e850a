// Pretended: the devices and links that a run pretends to have, in the simulator's terms.
// Not here: how a run is slowed down to them (engine/pretended.h). Chapter 06.
//
// Messages share the same links in a run and in the simulator, which finds their arrivals by the
// same arithmetic (links.h). The simulator begins a sum's messages without the time that threads
// take to wake, and a sum at the moment at which its last member does.
#pragma once

#include "parallel/simulation/costs.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {

/// Times in seconds, lists with a value for each stage or one for all stages. 0 means that nothing
/// is pretended: a computation takes as long as its arithmetic, links are as they are.
struct Pretended {
  std::vector<double> forward = {0};   ///< of a microbatch; also if it is computed again
  std::vector<double> backward = {0};  ///< of a microbatch; I and W take half each
  std::vector<double> step = {0};      ///< a list has one value more, the tied stage's
  Topology topology = {};              ///< without links: they are as they are
  std::string machine = {};            ///< whose topology it is; empty: none that has a name

  bool computes() const;
  bool links() const { return !topology.links.empty(); }

  /// Seconds that a computation takes at least; 0 for all that is no computation.
  double seconds(const Plan& plan, const Instruction& x) const;
  /// How many computations of a plan have a pretended time.
  int computations(const Plan& plan) const;
  /// Measured costs, with the pretended ones in their place.
  ///   measured: with a value for each stage of the plan
  Costs instead_of(Costs measured, const Plan& plan) const;
};

}  // namespace plangrad::parallel
