// State files: the weights and optimizer state of an engine to a checkpoint, and back. Every rank
// writes and reads its own stages; the files do not tell how the run was laid out, nor whether its
// state was sharded. For pruned parameters they hold the index and the stored elements.
// Not here: the format (nn/checkpoint/checkpoint.h). Chapters 07, 10 and 11.
#pragma once

#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "parallel/engine/engine.h"

namespace plangrad::parallel {

/// A data file of a stage's state, as this rank holds it.
struct StagePart {
  std::string stem;
  ParameterList parameters;
  FlatBuffers buffers;
  bool sharded = false;  ///< the buffers are shards; the file has them whole
};
std::vector<StagePart> parts_of(WeightStore& store, int stage, const Plan& plan);

/// Writes the stages that this rank holds and no lower one does, with all versions that are alive.
/// All ranks call it together: those that hold shards of a stage gather it, one stage at a time.
/// Commit the files of all ranks together afterwards.
void write_state(Engine& engine, const Plan& plan, const WriteFile& write_file);

/// Fills the engine's stages, which prepare() has made for a plan that begins at the checkpoint's
/// step. Versions that the checkpoint lacks begin as its oldest one.
void read_state(const Checkpoint& checkpoint, Engine& engine);

/// The whole number, or the map to such, that a checkpoint's JSON has under a key; `absent` if it
/// has no such key.
/// throws: Error if it has something else there
template <class T>
T of_run(const Checkpoint& checkpoint, const char* key, const T& absent) {
  try {
    const nlohmann::json found = checkpoint.run().value(key, nlohmann::json(absent));
    for (const nlohmann::json& number : found)  // what runs write there are whole numbers
      whole_number(number);
    return found.get<T>();
  } catch (const nlohmann::json::exception&) {
    throw Error(text("the checkpoint's manifest is damaged: what it says of \"", key,
                     "\" is not what a run writes there"));
  }
}

// ---- the memory of codecs: residuals, thresholds, factors ----

/// Writes this rank's residuals, and the factors of stages that no lower rank holds.
void write_codec_state(Engine& engine, const Plan& plan, const WriteFile& write_file);
/// This rank's numbers for the checkpoint's JSON: thresholds by place, uses.
nlohmann::json codec_numbers(Engine& engine);

/// Fills the codecs that prepare() has made for the plan. A rank takes the residual that it wrote,
/// for the elements that it still encodes; the first rank that encodes the others takes the rest.
/// So all that was left out reaches the sum sooner or later. Thresholds come from a checkpoint of
/// the same cut, ranks, codecs and reduction; else they are chosen anew. A checkpoint without a
/// codec has nothing.
void read_codec_state(const Checkpoint& checkpoint, Engine& engine, const Plan& plan);

/// A message for the user: the plan's codec has no use for what the checkpoint's codec has left
/// out, or the sums of these layers are not encoded any more. Empty: nothing is lost.
std::string lost_residual(const Checkpoint& checkpoint, const Plan& plan, const Training& training);

/// The codecs, cut and ranks that the codec numbers of a checkpoint belong to, as JSON.
nlohmann::json codec_layout(const Engine& engine, const Plan& plan);

}  // namespace plangrad::parallel
