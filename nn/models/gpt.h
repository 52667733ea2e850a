// GPT-2's network as a list of layers: embedding, blocks, head.
// Not here: training, and Hugging Face's files (nn/checkpoint/gpt_files.h).
// Chapter 02; Radford et al. 2019, "Language models are unsupervised multitask learners".
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "nn/models/model.h"

namespace plangrad::nn {

struct GptConfig {
  int layers = 12;
  int heads = 12;
  int width = 768;
  int context = 1024;  ///< longest sequence, in tokens
  int vocabulary = 50257;
  double dropout = 0;
  bool tied = true;  ///< the head reads the embedding's table

  /// throws: Error if a size is not positive, or the heads do not divide the width
  void check() const;
};

/// Converts a config to JSON, for checkpoints, and back.
/// throws: Error that lists the keys, if a size is missing, a key is unknown, or a value is wrong;
/// dropout and tied may be missing
nlohmann::json to_json(const GptConfig& config);
GptConfig gpt_config(const nlohmann::json& saved);

/// Makes a list of layers: the embedding, `layers` blocks, and the head, which computes logits.
/// Parameters have GPT-2's names; weights of linear layers are (Out,In).
/// shapes: tokens (B,T) of i32, T <= context -> logits (B,T,V)
/// A block's halves are its attention and its MLP.
Model gpt(const GptConfig& config);

/// Floating-point operations of a training step per token, forward and backward:
///   6 N + 12 L C T, with N the weights that multiply activations: blocks' matrices and the head
/// units:  a multiplication and an addition count as two
/// source: Chowdhery et al. 2022 (PaLM), appendix B
double gpt_flops_per_token(const GptConfig& config, int context);

}  // namespace plangrad::nn
