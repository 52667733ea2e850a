// Folders of runs: which one a run writes to if its command names none; and LoadedGpt, a GPT with
// its weights and vocabulary from the folder of a run or of a GPT-2 in Hugging Face's layout.
// Not here: its way into such a layout (exports.h), what a run writes (parallel/session/session.h),
// and the layouts (nn/checkpoint/gpt_files.h, nn/text/vocabulary.h). Chapter 02.
#pragma once

#include "nn/models/gpt.h"
#include "nn/text/vocabulary.h"
#include "parallel/session/session.h"

namespace plangrad::examples {

/// Points to the newest run that has a folder of this kind and a checkpoint.
inline const std::filesystem::path latest_run = "runs/latest";

/// Makes a folder that no other run has: runs/DATE-TIME-NAME, by this machine's clock.
std::filesystem::path new_run_folder(const std::string& name);

/// Checks that a session replaces nothing in its folder that is not its own run's, or that of a run
/// which never saved; `scope` says what it continues, and whether the user gives the rest up.
/// throws: Error that says how to go on
void check_out(const parallel::SessionScope& scope);

/// Copies files of a run that a session continues, here or from a copy, to free names beside them
/// if others have edited them, as the session will replace them. A run that was killed has noted no
/// files, and may have written lines of updates after its last save; these are no edits. Returns
/// what to tell; empty: there are no edits, or the user gives them up. Call it after check_out().
std::string keep_edited_files(const parallel::SessionScope& scope);

/// Renames metrics.jsonl and metrics.csv of a run if the files that will replace them do not begin
/// with all that they hold: others may have taken lines away. Returns what to tell.
std::string keep_lost_metrics(const std::filesystem::path& run);

/// Makes runs/latest point to the folder, in one step.
void point_latest_to(const std::filesystem::path& folder);

/// A model may have more rows than its vocabulary has tokens: they are padding, and no token has
/// them. Tokens that were added to the vocabulary may have none.
struct LoadedGpt {
  nn::GptConfig config;
  std::unique_ptr<nn::Vocabulary> vocabulary;  ///< null: the model was trained on token ids
  std::unique_ptr<nn::Stage> stage;            ///< the whole network, bound to `weights`
  autograd::Tensor weights;
};

/// Reads a model from the folder of a training run, from its checkpoint/, or else from a Hugging
/// Face folder (with config.json).
/// throws: Error if there is no such model, or its vocabulary belongs to another model
LoadedGpt load_gpt(const std::filesystem::path& folder, const autograd::DevicePtr& device);

}  // namespace plangrad::examples
