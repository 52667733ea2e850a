// Sampling: from logits to the next token.
// Not here: the model and the vocabulary.
// Chapter 02.
#pragma once

#include <cstdint>
#include <vector>

#include "autograd/random.h"

namespace plangrad::nn {

struct SampleSettings {
  double temperature = 0.8;  ///< 0: always the likeliest token
  int top_k = 0;             ///< choose among the likeliest only; 0: among all
};

/// Draws a token from softmax(logits / temperature), with random number `index` of `key`.
/// throws: Error if a setting is negative, or a logit is not finite
/// source: Fan, Lewis and Dauphin 2018, section 5.4 (top-k)
std::int32_t sample_token(const std::vector<double>& logits, const SampleSettings& settings,
                          autograd::RandomKey key, std::uint64_t index);

}  // namespace plangrad::nn
