// The manifest of a checkpoint: its text, and the names of tensors in the data files.
// Not here: an interface. Only nn/checkpoint*.cpp include this.
// Chapter 02.
#pragma once

#include <nlohmann/json.hpp>

#include "nn/checkpoint/checkpoint.h"

namespace paragrad::nn {

inline constexpr const char* manifest_name = "manifest.json";

struct Manifest {
  std::int64_t step = 0;
  nlohmann::json run;
  std::vector<CheckpointFile> files;
};

/// throws: Error if `run` can't be written as JSON
std::string manifest_text(const Manifest& manifest);
/// throws: Error if the folder has no manifest, or a damaged one
Manifest read_manifest(const std::filesystem::path& folder);

/// What a parameter's part of a flat buffer is called: the weights, whose name is "", by the
/// parameter's name alone.
inline std::string tensor_name(const std::string& buffer, const std::string& parameter) {
  return buffer.empty() ? parameter : buffer + "/" + parameter;
}

}  // namespace paragrad::nn
