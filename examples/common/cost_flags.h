// CostFlags: what computations and messages cost, as a command line gives it.
// Not here: what follows from it (parallel/simulation/costs.h).
// Chapter 06.
#pragma once

#include "parallel/simulation/costs.h"

namespace CLI {
class App;
}

namespace paragrad::examples {

/// Units: seconds, bytes, bytes per second.
struct CostFlags {
  parallel::Costs costs;

  void add_flags(CLI::App& app);
  /// Messages that the plan encodes are as long as its codecs make values of f32.
  /// throws: Error if that depends on shapes, as it does with lowrank and pca
  parallel::Costs of(const parallel::Plan& plan) const;
};

}  // namespace paragrad::examples
