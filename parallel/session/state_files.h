// State files: the weights and optimizer state of an engine to a checkpoint, and back. Every rank
// writes and reads its own stages; the files do not tell how the run was laid out, nor whether its
// state was sharded. Of pruned parameters they have the index, and what the rank stored.
// Not here: the format (nn/checkpoint/checkpoint.h). Chapters 07 and 11.
#pragma once

#include <filesystem>

#include "nn/checkpoint/checkpoint.h"
#include "parallel/engine/engine.h"

namespace paragrad::parallel {

/// Writes the stages that this rank holds and no lower one does, with all versions that are alive.
/// All ranks call it together: those that hold shards of a stage gather it, one stage at a time.
/// Commit the files of all ranks together afterwards.
std::vector<CheckpointFile> write_state(const std::filesystem::path& folder, Engine& engine,
                                        const Plan& plan, std::int64_t step);

/// Fills the engine's stages, which prepare() has made for a plan that begins at the checkpoint's
/// step. Versions that the checkpoint has not begin as its oldest.
void read_state(const Checkpoint& checkpoint, Engine& engine);

}  // namespace paragrad::parallel
