// Manifests of checkpoints that a test changes. Not here: their fields
// (nn/checkpoint/checkpoint.h).
#pragma once

#include <nlohmann/json.hpp>

#include "nn/checkpoint/file.h"

namespace plangrad::tests {

/// The text of a manifest with these fields and the checksum that belongs to them.
inline std::string signed_manifest(nlohmann::json fields) {
  fields.erase("checksum");
  std::string text = fields.dump(2);
  text.resize(text.size() - 2);  // "\n}"
  return text + ",\n  \"checksum\": \"" + nn::checksum_of(text) + "\"\n}\n";
}

/// The text of the manifest as a program without checksums writes it.
inline std::string old_manifest(nlohmann::json fields) {
  for (const char* name : {"checksum", "run_id", "build"}) fields.erase(name);
  for (nlohmann::json& file : fields["files"]) file.erase("checksums");
  fields["version"] = 1;
  return fields.dump(2);
}

}  // namespace plangrad::tests
