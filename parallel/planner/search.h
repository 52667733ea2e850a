// Search: the fastest plans for a model on a machine's devices, among all that schedules, widths,
// depths, microbatches, recomputation, ZeRO, cuts and places of ranks allow.
// Not here: how long a plan takes (evaluation.h).
// Chapter 16; Narayanan et al. 2021 (PipeDream-2BW), algorithm 1.
#pragma once

#include "parallel/planner/evaluation.h"

namespace plangrad::parallel {

/// What a search may choose from.
struct Space {
  std::vector<std::string> schedules = {};  ///< empty: all of the register
  std::vector<CodecSpec> codecs = {{}};     ///< of sums of gradients
  std::vector<CodecSpec> channels = {{}};   ///< of activations and their gradients
  std::vector<double> pruned = {0};         ///< shares of each matrix that are not stored
  int most_examples = 64;                   ///< of a microbatch
  int keep = 10;                            ///< plans that are wanted
};

/// All candidates: devices may be idle, replicas and microbatches divide the batch. Schedules are
/// those whose updates are of one batch, divided over whole replicas of a pipeline or of the model:
/// not cyclic ones, pipedream, whose updates are of a microbatch, nor recycle, whose pipelines have
/// lost ranks. Replicas of one device are of the schedule in which a rank has all stages. Ranks
/// hold 2, 4, 8 ... stages where the schedule leaves it open, or 1, 2, 4 ... if these are all.
/// Codecs are left out where nothing is sent that they encode; those that make factors, where some
/// elements are not stored.
std::vector<Candidate> candidates(Evaluation& evaluation, int layers, int devices, int batch,
                                  const Space& space);

struct SearchResult {
  std::vector<Found> best;  ///< that fit, fastest first, with the parts of their time
  /// The plan that needs the least memory too much, of those fast enough to be among the best.
  std::optional<Found> nearest;
  std::size_t candidates = 0, refused = 0, simulated = 0;  ///< refused: without enough memory
};

/// Tells how many candidates have been looked at, of how many at most.
using Progress = std::function<void(std::size_t done, std::size_t all)>;

/// Simulates candidates in the order of their bounds, until a bound exceeds the last of the best
/// plans. So the result is that of simulating all of them.
///   memory: of a device, in bytes; 0: without limit
SearchResult search(Evaluation& evaluation, std::vector<Candidate> candidates, double memory,
                    int keep, const Progress& progress = nullptr);

}  // namespace plangrad::parallel
