// CostFlags: the costs of computations and messages that a command line gives.
// Not here: how long they take in a plan (parallel/simulation/costs.h).
// Chapter 06.
#pragma once

#include "parallel/simulation/costs.h"

namespace CLI {
class App;
}

namespace plangrad::examples {

/// Costs in seconds, bytes, and bytes per second.
struct CostFlags {
  parallel::Costs costs;

  void add_flags(CLI::App& app);
  /// Returns the costs of `plan`; its codecs shorten messages as they shorten f32 values.
  /// throws: Error if that length depends on shapes, as with lowrank and pca
  parallel::Costs of(const parallel::Plan& plan) const;
};

}  // namespace plangrad::examples
