// The masks that a search for an Early-Bird ticket has drawn, to a checkpoint and back, so that a
// run that stops before it has found one goes on with the same window.
// Not here: the search (pruning.h). Chapter 11.
#pragma once

#include <deque>
#include <filesystem>

#include "parallel/session/state_files.h"
#include "sparse/mask.h"

namespace paragrad::sparse {

/// Writes the draws of the stages that this rank holds and no lower one does.
std::vector<CheckpointFile> write_draws(const std::filesystem::path& folder, Engine& engine,
                                        const Plan& plan, std::int64_t step,
                                        const std::deque<Masks>& draws);
/// The draws of all parameters, the oldest first, of the fraction `pruned`; none if the checkpoint
/// has none.
std::deque<Masks> read_draws(const Checkpoint& checkpoint, const ParameterList& whole,
                             double pruned, const DevicePtr& device);

}  // namespace paragrad::sparse
