// GPT-2 in Hugging Face's layout: a folder with config.json and model.safetensors, in and out.
// Not here: the network (nn/models/gpt.h), and the vocabulary beside it (nn/text/byte_pair.h).
// Chapter 02; Hugging Face Transformers, class GPT2LMHeadModel.
#pragma once

#include <filesystem>

#include "nn/models/gpt.h"

namespace paragrad::nn {

/// The network that the folder's config.json describes. Dropout stays 0: how much to drop is a
/// choice of training.
/// throws: Error if the file is missing or damaged, or asks for what gpt.h does not compute
///         (another activation, epsilon, inner width, ...), which it names
GptConfig read_gpt_config(const std::filesystem::path& folder);

/// Fills a flat buffer with the folder's weights of `parameters`: the network of read_gpt_config(),
/// or any of its stages. Values are F32, F16, BF16 or F64 and are rounded to the buffer's type.
/// Names may begin with "transformer."; linear layers lie transposed, as (In,Out), in the file.
/// shapes: weights (parameters.numel())
/// throws: Error if model.safetensors lacks a tensor of the network, has one too many, or one of
///         another shape, or a head that differs from the table that it is tied to
void load_gpt_weights(const std::filesystem::path& folder, const ParameterList& parameters,
                      const Tensor& weights);

/// Writes a folder that Hugging Face's GPT2LMHeadModel.from_pretrained() reads, and this file, too.
/// shapes: weights (parameters.numel()), the whole network's
/// throws: Error if `parameters` are not the network's, or the disk refuses
void write_gpt_folder(const std::filesystem::path& folder, const GptConfig& config,
                      const ParameterList& parameters, const Tensor& weights);

}  // namespace paragrad::nn
