// Masks on their way: from rank to rank, and through a checkpoint.
// Not here: how masks are chosen (pruning.h), and when (prune_run.h). The masks that a model is
// pruned by are part of its state (parallel/session/state_files.h). Chapter 11.
#pragma once

#include <deque>
#include <filesystem>

#include "parallel/session/state_files.h"
#include "sparse/pruning.h"

namespace paragrad::sparse {

/// A function that adds counts up over all ranks, which call it together, between plans.
/// `timeout`: see parallel/transports/launch.h.
SumCounts sum_over(Transport& transport, double timeout);
/// The masks of all ranks, on every rank. All ranks call it together, between plans.
Masks all_masks(Transport& transport, const Masks& own, double timeout);

/// Writes the draws of a search for an Early-Bird ticket (EarlyBird::draws), so that a run that
/// stops before it has found one continues with the same window. Each rank writes those of the
/// stages that it holds and no lower rank does.
std::vector<CheckpointFile> write_draws(const std::filesystem::path& folder, Engine& engine,
                                        const Plan& plan, std::int64_t step,
                                        const std::deque<Masks>& draws);
/// The draws of all parameters, the oldest first, of the fraction `pruned`; none if the checkpoint
/// has none.
std::deque<Masks> read_draws(const Checkpoint& checkpoint, const ParameterList& whole,
                             double pruned, const DevicePtr& device);

}  // namespace paragrad::sparse
