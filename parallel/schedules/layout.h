// Layout: the choices from which a schedule makes its plan, and where the stages of a model are.
// Not here: which choices a schedule leaves to its users (schedule.h). Chapter 06.
#pragma once

#include <optional>

#include "parallel/plan/codec_spec.h"

namespace plangrad::parallel {

/// The work of a rank in a cyclic schedule. one_device: everything. data: every stage of its own
/// microbatches. pipeline: one stage. model: one stage, for microbatches that are never on it at
/// the same time. zero: as in data, but weights travel.
/// source: Fournier and Oyallon 2024, table 1
enum class Setting { one_device, data, pipeline, model, zero };
/// Settings by the names that users type.
const std::map<std::string, Setting>& settings();
/// Whether microbatches wait for turns, so that Layout::gap has an effect.
inline bool has_turns(Setting setting) {
  return setting == Setting::data || setting == Setting::zero;
}

/// Which stages the D ranks of a replica hold, if each holds V of them.
///   straight   consecutive ones: rank r has stages rV to rV + V - 1
///   loop       every D-th one: rank r has stages r, D + r, 2D + r, ...
///   v          every second round of D stages backwards: with V = 2, stages r and 2D - 1 - r
///   both_ways  two copies of D stages, which lie head to tail: rank r has stages r and D - 1 - r
enum class Placement { straight, loop, v, both_ways };
/// The placements that users choose between, by the names that they type.
const std::map<std::string, Placement>& placements();

/// The choices from which a schedule makes its plan.
struct Layout {
  int stages = 1;                   ///< parts that the model is split into
  int width = 1;                    ///< replicas of the model
  int microbatches = 1;             ///< microbatches of each replica and step
  int steps = 1;                    ///< steps that the plan makes
  int first = 0;                    ///< steps that were made before the plan
  bool recompute = false;           ///< drop activations after the forward, compute them again
  bool clip = false;                ///< steps need the gradient's global norm
  bool tied = false;                ///< the first and the last stage share a tensor (embeddings)
  Setting setting = Setting::data;  ///< cyclic; as many microbatches as stages
  int gap = 2;  ///< cyclic, data and zero: stages between consecutive microbatches. 3 suits
                ///< backwards that take twice as long as forwards
  /// message-driven, recycle: microbatches that a rank may have between their forward and their
  /// backward; 0: as many as stages
  int in_flight = 0;
  int drift = 0;   ///< paci: the most that a backward's weights may be newer than its forward's;
                   ///< 0: as much as a full pipeline needs
  int chunks = 0;  ///< stages that a rank holds; 0: as many as the schedule usually has
  std::optional<Placement> placement = {};  ///< where stages lie; none: as usual for the schedule
  std::vector<int> lost = {};               ///< recycle: ranks of the whole pipelines that are lost
  std::vector<double> cuts = {};  ///< layers at which all stages but the first begin; 1.5: the
                                  ///< second half of layer 1 (nn::cut_model); empty: so that stages
                                  ///< have about equal arithmetic. A plan is the same for all
  int zero = 0;  ///< ZeRO level: up to 3 with data parallelism, up to 1 with pipelines
  CodecSpec codec = {}, channel = {};  ///< encode gradient sums; activations and their gradients

  /// Microbatches of all replicas in one step.
  int per_step() const { return width * microbatches; }
  /// The microbatches of one replica in one step.
  std::vector<int> micros(int replica, int step) const;
  /// The microbatches of one replica in all steps of the plan.
  std::vector<int> micros(int replica) const;

  /// Copies of the model that a replica holds.
  int copies() const { return placement == Placement::both_ways ? 2 : 1; }
  /// Ranks of a replica (D). Rank r of all ranks is rank r % D of replica r / D.
  int depth() const { return stages * copies() / (chunks > 0 ? chunks : 1); }
  /// The rank of a replica that holds a stage; where there are two copies, of the first one.
  int rank_of(int stage) const;
  /// The stages that a rank of a replica holds: ascending, or those of the first copy first.
  std::vector<int> stages_of(int rank) const;
};

}  // namespace plangrad::parallel
