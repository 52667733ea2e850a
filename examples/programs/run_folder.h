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

namespace plangrad::examples {

/// Points to the newest run that has a folder of this kind and a checkpoint.
inline const std::filesystem::path latest_run = "runs/latest";

/// Makes a folder that no other run has: runs/DATE-TIME-NAME, by this machine's clock.
std::filesystem::path new_run_folder(const std::string& name);

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

/// Writes a model into a folder for Hugging Face's from_pretrained(): weights, configuration and
/// tokenizer. Pruned weights are written as zeros.
void export_gpt(const LoadedGpt& gpt, const std::filesystem::path& folder);

/// The folder of a run's export: huggingface/ in the run's folder.
std::filesystem::path export_of(const std::filesystem::path& run);
/// Removes the files of an export from there; others stay.
void remove_export(const std::filesystem::path& run);
/// Exports the run's checkpoint to export_of(run): the folder is complete, or not there. Files in
/// it that no export writes stay.
void export_run(const std::filesystem::path& run);

}  // namespace plangrad::examples
