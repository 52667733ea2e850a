// State files: the weights and optimizer state of an engine to a checkpoint, and back. Every rank
// writes and reads its own stages; the files do not tell how the run was laid out, nor whether its
// state was sharded. Of pruned parameters they have the index, and what the rank stored.
// Not here: the format (nn/checkpoint/checkpoint.h). Chapters 07, 10 and 11.
#pragma once

#include <filesystem>
#include <nlohmann/json.hpp>

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

// ---- what codecs remember: what was left out so far, thresholds, factors (codec_state.cpp) ----

/// Writes this rank's residuals, and the factors of stages that no lower rank holds.
std::vector<CheckpointFile> write_codec_state(const std::filesystem::path& folder, Engine& engine,
                                              const Plan& plan, std::int64_t step);
/// What goes to the checkpoint's JSON: thresholds by place, uses.
nlohmann::json codec_numbers(Engine& engine);

/// Fills the codecs that prepare() has made for the plan. A rank takes the residual that it wrote,
/// as far as it encodes these elements still, and the first one that does takes the rest: what was
/// left out is in the sum sooner or later. Thresholds are those of the checkpoint if it has the
/// same cut, ranks, codecs and reduction; else they are chosen anew. A checkpoint without a codec
/// has nothing.
void read_codec_state(const Checkpoint& checkpoint, Engine& engine, const Plan& plan);

/// What the user should know of it: that the plan's codec has no use for what the checkpoint's has
/// left out, or which layers' sums are not encoded any more. Empty: nothing is lost.
std::string lost_residual(const Checkpoint& checkpoint, const Plan& plan, const Training& training);

/// How a checkpoint says which codecs, cut and ranks its numbers belong to.
nlohmann::json codec_layout(const Engine& engine, const Plan& plan);

}  // namespace paragrad::parallel
