// The tensors of a checkpoint as bytes, to compare runs: its files also name the run, which no two
// runs share.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "nn/checkpoint/checkpoint.h"

namespace plangrad::tests {

/// The bytes of the tensors in the checkpoint of a run's folder, by name.
inline std::map<std::string, std::string> tensors_in(const std::filesystem::path& folder) {
  std::map<std::string, std::string> tensors;
  const nn::Checkpoint checkpoint(folder / "checkpoint");
  for (const nn::SafetensorsFile& file : checkpoint.files())
    for (const nn::SafetensorsEntry& entry : file.entries())
      entry.read_parts([&](nn::format::Bytes part) {
        tensors[entry.name].append(reinterpret_cast<const char*>(part.data()), part.size());
      });
  return tensors;
}

}  // namespace plangrad::tests
