// A checkpoint of a tiny GPT, for the targets that read one.
#pragma once

#include <filesystem>

#include "nn/models/gpt.h"

namespace paragrad::fuzz {

inline const nn::GptConfig small_gpt{1, 2, 4, 3, 5, 0, true};

/// Writes the checkpoint of a run of train_gpt after 3 updates, whose sums were encoded.
void write_checkpoint(const std::filesystem::path& folder);

}  // namespace paragrad::fuzz
