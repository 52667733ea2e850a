// Stage seconds: how long a machine takes for what a stage computes, and for sums over replicas;
// and the links that one replica has.
// Not here: kernels (layer_costs.h) and their seconds (simulation/machine.h).
// Chapter 06.
#pragma once

#include <vector>

#include "parallel/planner/layer_costs.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {

/// Seconds of a stage for one microbatch, and of its update.
struct StageSeconds {
  double forward = 0, backward = 0, input_part = 0, weight_part = 0;
  double update = 0;  ///< of one rank that has the whole state
};

/// Seconds of each stage; the tied stage, which is the last one, only has an update. The host's
/// seconds are added to each forward and backward, half of them to each part of a backward.
std::vector<StageSeconds> stage_seconds(const ModelCosts& costs, const Machine& machine);

/// Where the ranks of a plan are. Stages: the replicas of a stage are side by side, so that their
/// sums stay on few hosts. Pipelines: the ranks of a replica are, so that its messages do.
enum class Packing { stages, pipelines };

/// The replicas of a pipeline on a machine. They are alike but for the borders of hosts.
struct Replicas {
  Packing packing = Packing::stages;
  int width = 1, depth = 1;  ///< replicas, and ranks of each

  /// The links that one replica has if the others send what it sends at the same time. Of the
  /// replicas it is one whose messages cross the most borders of hosts.
  Topology links_of_one(const Topology& machine) const;
  /// Seconds of a ring's part while other ranks' rings use the links, too: each of the width - 1
  /// rounds sends 1 / width of these bytes. An all-reduce is two parts.
  double ring_part(const Topology& machine, double bytes) const;
};

}  // namespace plangrad::parallel
