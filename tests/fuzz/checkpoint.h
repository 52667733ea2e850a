// A checkpoint of a tiny GPT, for the targets that read one.
#pragma once

#include <filesystem>
#include <string>

#include "nn/models/gpt.h"

namespace plangrad::fuzz {

inline const nn::GptConfig small_gpt{1, 2, 4, 3, 5, 0, true};

/// Writes the checkpoint of a run of train_gpt after 3 updates, whose sums were encoded.
void write_checkpoint(const std::filesystem::path& folder);

/// The manifest without checksums, as version 1 of the format has it: damage gets past its checks.
std::string unsealed(const std::string& manifest);

}  // namespace plangrad::fuzz
