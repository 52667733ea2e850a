// Transfers masks from rank to rank, and through a checkpoint.
// Not here: the choice of masks (pruning.h), and its time (prune_run.h). A pruned model's masks are
// part of its state (parallel/session/state_files.h). Chapter 11.
#pragma once

#include <deque>
#include <filesystem>

#include "parallel/session/state_files.h"
#include "sparse/pruning.h"

namespace plangrad::sparse {

/// Makes a function that sums counts over all ranks; all ranks call it together, between plans.
/// `timeout`: see parallel/transports/launch.h.
SumCounts sum_over(Transport& transport, double timeout);
/// Returns the masks of all ranks on every rank. All ranks call it together, between plans.
Masks all_masks(Transport& transport, const Masks& own, double timeout);

/// Writes the draws of a search for an Early-Bird ticket (EarlyBird::draws), so that a run that
/// stops before it has found a ticket resumes with the same window. Each rank writes the draws of
/// the stages that it holds and no lower rank holds.
void write_draws(Engine& engine, const Plan& plan, const std::deque<Masks>& draws,
                 const WriteFile& write_file);
/// Reads the draws of all parameters for the fraction `pruned`, the oldest first; empty if the
/// checkpoint has none.
std::deque<Masks> read_draws(const Checkpoint& checkpoint, const ParameterList& whole,
                             double pruned, const DevicePtr& device);

}  // namespace plangrad::sparse
