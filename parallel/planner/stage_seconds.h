// Stage seconds: how long a machine takes, or a run took, for what a stage computes; how long sums
// over replicas take; and the links that one replica has.
// Not here: kernels (layer_costs.h) and their seconds (simulation/machine.h). Chapter 16.
#pragma once

#include "parallel/planner/layer_costs.h"
#include "parallel/simulation/machine.h"

namespace plangrad::parallel {

/// Seconds of a stage for one microbatch, and of its update.
struct StageSeconds {
  double forward = 0, backward = 0, input_part = 0, weight_part = 0;
  double update = 0;  ///< of one rank that has the whole state

  /// The seconds of a microbatch: those of its forward and its backward.
  double pass() const { return forward + backward; }
  /// Adds what a microbatch takes, `times` over.
  void add(const StageSeconds& other, double times) {
    for (auto part : {&StageSeconds::forward, &StageSeconds::backward, &StageSeconds::input_part,
                      &StageSeconds::weight_part})
      this->*part += times * other.*part;
  }
  /// Makes a microbatch take `times` as long.
  void scale(double times) { add(*this, times - 1); }
};

/// Seconds of each stage; the tied stage, which is the last one, only has an update. The host's
/// seconds are added to each forward and backward, half of them to each part of a backward.
std::vector<StageSeconds> stage_seconds(const ModelCosts& costs, const Machine& machine);

/// The seconds that a run needed for a microbatch in each of its stages, and to update one element
/// of the weights. A stage's seconds are divided by arithmetic, over its layers and within them.
struct MeasuredSeconds {
  /// training: how the run cut the model, and whether its backwards computed layers again, whose
  ///   first forward is subtracted
  /// examples: of a microbatch
  /// costs: of its stages: forward, backward, or its two parts, and step
  /// shards: ranks that share the update of a stage
  /// throws: Error if there are not as many costs as stages, or if a backward takes no longer than
  ///   the forward in it
  MeasuredSeconds(const Training& training, const Costs& costs, int examples, int shards = 1);

  int examples;                      ///< of a microbatch
  std::vector<StageSeconds> stages;  ///< of a microbatch
  std::vector<double> ends;          ///< of these: the arithmetic of the layers up to there
  double element = 0;                ///< of an update
  int cores = 0, threads = 0;  ///< that all ranks shared, and of each rank; 0: not on shared cores
  int most_threads = std::numeric_limits<int>::max();  ///< of a rank, however few share the cores
};

/// Seconds of each stage as a run has them, whose microbatches `costs` have. A second forward, of a
/// stage that recomputes its layers, takes what the first one took.
///   ranks: that share the run's cores: kernels take longer by as much as a rank has fewer threads
std::vector<StageSeconds> stage_seconds(const ModelCosts& costs, const MeasuredSeconds& run,
                                        int ranks = 1);

/// What the simulator is told of stages, the tied one among them, where codecs shorten messages and
/// `shards` ranks share the update of each.
Costs costs_of_stages(const ModelCosts& model, const std::vector<StageSeconds>& seconds,
                      const CodecSpec& codec, const CodecSpec& channel, int shards);

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
  /// The devices of the replicas of these ranks, in the order of a run's ranks.
  std::vector<int> devices(const std::vector<int>& ranks) const;
};

/// Seconds of a sum or gather, by its bytes.
struct SumSeconds {
  double latency = 0, per_byte = 0;
  double of(double bytes) const { return latency + bytes * per_byte; }
};

/// How long a group of ranks takes for a sum or gather while nothing else uses the links. A round
/// of its lists takes as long as its busiest link, and follows the one before.
SumSeconds sum_seconds(const Topology& machine, const std::vector<int>& group, AllReduce how,
                       ListMaker list);

}  // namespace plangrad::parallel
