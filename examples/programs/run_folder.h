// Folders of runs: which one a run writes to if its command names none; and LoadedGpt, a GPT with
// its weights and vocabulary from the folder of a run or of a GPT-2 in Hugging Face's layout, and
// its way into such a layout. Not here: what a run writes (parallel/session/session.h), and the
// layouts (nn/checkpoint/gpt_files.h, nn/text/vocabulary.h). Chapter 02.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

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

/// Reads a model from the folder of a training run, from its checkpoint/, or from a Hugging Face
/// folder (with config.json).
/// throws: Error if there is no such model, or its vocabulary belongs to another model
LoadedGpt load_gpt(const std::filesystem::path& folder, const autograd::DevicePtr& device);

/// Writes a model into a folder for Hugging Face's from_pretrained(): weights, configuration,
/// tokenizer, and a list of their checksums. Pruned weights are written as zeros. The folder is
/// complete, or as it was before; files in it that no export writes stay.
/// throws: Error unless the folder is new, empty or an earlier export
void export_gpt(const LoadedGpt& gpt, const std::filesystem::path& folder);

/// Describes the first damage of an export; the text is empty if it is intact. A folder without a
/// list of checksums has no answer. An export that is replaced meanwhile is read anew.
///   all: a file that is missing is wrong, too
std::optional<std::string> export_damage(const std::filesystem::path& folder, bool all);
/// Does nothing for folders of other programs.
/// throws: Error if a file of an export is damaged
void check_export(const std::filesystem::path& folder);

/// The folder of a run's export: huggingface/ in the run's folder.
std::filesystem::path export_of(const std::filesystem::path& run);
/// Removes the files of a run's export; others stay.
void remove_export(const parallel::SessionScope& scope);
/// Exports the run's checkpoint to export_of(run), as export_gpt() does. A folder that holds files
/// of others alone takes it, too.
void export_run(const std::filesystem::path& run);

}  // namespace plangrad::examples
