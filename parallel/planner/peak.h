// Peak memory: the bytes of every rank over the time of a simulated plan, by what they are for, and
// the cell in which a rank has the most.
// Not here: what is held, and when (simulation/holdings.h); a real run's bytes (autograd/device.h).
// Chapters 09 and 16.
#pragma once

#include <optional>

#include "parallel/collectives/collective.h"
#include "parallel/planner/layer_costs.h"
#include "parallel/simulation/holdings.h"

namespace plangrad::parallel {

/// The most bytes that a rank has.
struct Peak {
  int rank = 0;
  MemoryLevel level;
  int cell = -1;  ///< of the rank's row, that runs then; -1: the plan has not begun
  Instruction during = {};
  double saving = 0;  ///< bytes while a checkpoint is saved after the plan: shards are gathered

  double total() const { return std::max(level.total(), saving); }
};

/// The bytes of a model's stages in a plan.
///   reduction: how groups sum up gradients
///   members: by stage, how many ranks add it up; empty: those of the plan
Sizes sizes_of(const ModelCosts& costs, const Plan& plan,
               AllReduce reduction = AllReduce::scatter_reduce,
               const std::vector<int>& members = {});

/// The costs, with messages and updates that take at least a moment: if all were at one time, what
/// comes one after the other would be there at once.
Costs one_by_one(Costs costs);

/// The memory of each rank over time, with what is beside values (simulation/holdings.h).
///   plan: in the order in which it ran: in_order(plan, costs)
///   timeline: simulated, at costs of one_by_one()
std::vector<std::vector<MemoryLevel>> memory_levels(const Plan& plan, const Timeline& timeline,
                                                    const Sizes& sizes);
/// The peaks of all ranks; for each of several kinds of memory, when they have the most of it.
///   kinds: nullopt: all kinds together
std::vector<Peak> peaks(const Plan& plan, const Timeline& timeline, const Sizes& sizes,
                        const std::vector<std::optional<Memory>>& kinds = {std::nullopt});
/// The peak of the rank that has the most.
const Peak& fullest(const std::vector<Peak>& peaks);

}  // namespace plangrad::parallel
