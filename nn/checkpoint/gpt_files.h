// GPT-2 in Hugging Face's layout: reads and writes folders with config.json and model.safetensors.
// Not here: the network (nn/models/gpt.h), and the vocabulary beside it (nn/text/byte_pair.h).
// Chapter 02; Hugging Face Transformers, class GPT2LMHeadModel.
#pragma once

#include <filesystem>
#include <optional>

#include "nn/models/gpt.h"

namespace plangrad::nn {

/// Says which weights of another kind a folder has (LoRA, .bin, GGUF, ...), and what to do with
/// them; empty: none that are known.
std::string other_weights(const std::filesystem::path& folder);

/// The files of a folder's weights: model.safetensors, or the parts that its index names.
/// throws: Error if one is missing, or the folder has weights of another kind
std::vector<std::filesystem::path> weight_files(const std::filesystem::path& folder);

/// Reads the network that the folder's config.json describes. Dropout stays 0, because it is a
/// choice for training. Compares its size with that of the weights: model.safetensors, or the parts
/// that a model.safetensors.index.json names.
/// throws: Error if a file is missing, damaged or of another kind, such as a Git LFS pointer, or
///         the config has a setting that gpt.h does not support (another activation, epsilon, inner
///         width, ...); the error names it, and the remedy
GptConfig read_gpt_config(const std::filesystem::path& folder);

/// Fills a flat buffer with the folder's weights of `parameters`: the network of read_gpt_config(),
/// or any of its stages. Values are F32, F16, BF16 or F64 and are rounded to the buffer's type.
/// Names may begin with "transformer." and wrappers' prefixes, such as "module."; files store
/// linear layers transposed, as (In,Out).
/// shapes: weights (parameters.numel())
/// throws: Error if the files lack a tensor of the network, have one that it lacks, have one
///         with another shape, or have a head that differs from the table that it is tied to
void load_gpt_weights(const std::filesystem::path& folder, const ParameterList& parameters,
                      const Tensor& weights);

/// Writes a folder that Hugging Face's GPT2LMHeadModel.from_pretrained() and this file can read:
/// model.safetensors, config.json and generation_config.json.
/// shapes: weights (parameters.numel()), of the whole network
///   end_of_text: the token that begins and ends texts; none: the vocabulary has no such token
/// throws: Error if `parameters` are not the network's, or the files can't be written
void write_gpt_folder(const std::filesystem::path& folder, const GptConfig& config,
                      const ParameterList& parameters, const Tensor& weights,
                      std::optional<int> end_of_text = {});

}  // namespace plangrad::nn
