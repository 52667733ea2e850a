// Codec state: what codecs remember, to a checkpoint and back: what was left out so far,
// thresholds, factors.
// Not here: weights and optimizer state (state_files.h). Chapter 10.
#pragma once

#include <nlohmann/json.hpp>

#include "parallel/session/state_files.h"

namespace paragrad::parallel {

/// Writes this rank's residuals, and the factors of stages that no lower rank holds.
std::vector<CheckpointFile> write_codec_state(const std::filesystem::path& folder, Engine& engine,
                                              const Plan& plan, std::int64_t step);
/// What goes to the checkpoint's JSON: thresholds by place, uses.
nlohmann::json codec_numbers(Engine& engine);

// [snippet resumed]
/// Fills the codecs that prepare() has made for the plan. A rank takes the residual that it wrote,
/// as far as it encodes these elements still, and the first one that does takes the rest: what was
/// left out is in the sum sooner or later. Thresholds are those of the checkpoint if it has the
/// same cut, ranks, codecs and reduction; else they are chosen anew. A checkpoint without a codec
/// has nothing.
void read_codec_state(const Checkpoint& checkpoint, Engine& engine, const Plan& plan);
// [end snippet]

/// What the user should know of it: that the plan's codec has no use for what the checkpoint's has
/// left out, or which layers' sums are not encoded any more. Empty: nothing is lost.
std::string lost_residual(const Checkpoint& checkpoint, const Plan& plan, const Training& training);

/// How a checkpoint says which codecs, cut and ranks its numbers belong to.
nlohmann::json codec_layout(const Engine& engine, const Plan& plan);

}  // namespace paragrad::parallel
