// Definitions that readers and writers share: the limits and dtypes of safetensors, the manifest of
// a checkpoint, and the names of tensors in its data files.
// Not here: an interface for others. Only files of nn/checkpoint include this.
// Chapter 02.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "nn/checkpoint/checkpoint.h"

namespace plangrad::nn::format {

using Bytes = std::span<const std::byte>;

inline constexpr std::uint64_t length_bytes = 8;
inline constexpr std::uint64_t header_limit = 100'000'000;
inline constexpr const char* metadata_key = "__metadata__";

/// Quotes a name for an error: on one line, whatever characters it has.
inline std::string in_quotes(const std::string& name) {
  using nlohmann::json;
  return json(name).dump(-1, ' ', false, json::error_handler_t::replace);
}

/// The bytes of a tensor. All partial products must fit in 63 bits, even if a later size is 0.
/// throws: Error that begins with `where`, if they do not, or if the format has no such dtype
std::int64_t checked_byte_count(const std::string& where, const std::string& dtype,
                                const std::vector<std::int64_t>& sizes);

}  // namespace plangrad::nn::format

namespace plangrad::nn {

struct Manifest {
  std::int64_t step = 0;
  std::string run_id, build;  // empty in checkpoints of version 1, which have no checksums
  nlohmann::json run;
  std::vector<CheckpointFile> files;

  bool has_checksums() const { return !build.empty(); }
};

/// throws: Error if the folder has no such manifest, or a damaged one
Manifest read_manifest(const std::filesystem::path& folder, const std::string& name);
/// throws: Error if the run's description is not UTF-8
std::string manifest_text(const Manifest& manifest);

/// throws: Error that begins with `title`, unless the file's header and, if `all`, all of its
/// tensors have these checksums
void check_checksums(const std::string& title, const SafetensorsFile& file,
                     const Checksums& expected, bool all);

/// The name of a parameter's part of a flat buffer. The weights' buffer is called "", so its parts
/// have the names of parameters.
inline std::string tensor_name(const std::string& buffer, const std::string& parameter) {
  return buffer.empty() ? parameter : buffer + "/" + parameter;
}

}  // namespace plangrad::nn
