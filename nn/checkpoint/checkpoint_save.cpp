// Saves a checkpoint: data files under new names, then the manifest in one atomic step; also reads
// the manifest. Not here: reading data files (nn/checkpoint/checkpoint.cpp).
// Chapter 02.
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "autograd/backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/formats.h"

namespace paragrad::nn {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(CheckpointFile, name, bytes)

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* format_name = "paragrad checkpoint";
constexpr int format_version = 1;

/// Parses a manifest and checks each field: the file may be damaged, or of another program.
Manifest parse_manifest(const std::string& text) {
  const json manifest = parse_json(text);
  PG_CHECK(manifest.at("format") == format_name, "\"format\" is not \"", format_name, "\"");
  const json &version = manifest.at("version"), &step = manifest.at("step");
  PG_CHECK(version.is_number_integer() && version == format_version, "it has version ",
           version.dump(), ", this program reads ", format_version);
  PG_CHECK(step.is_number_unsigned() && step.get<std::uint64_t>() <= INT64_MAX,
           "\"step\" is not a whole number from 0");
  for (const json& file : manifest.at("files"))
    PG_CHECK(file.at("bytes").is_number_unsigned(), "\"bytes\" is not a whole number from 0");
  const json& run = manifest.at("run");
  PG_CHECK(run.is_object() || run.is_null(), "\"run\" is not an object");
  Manifest result{step, run, manifest.at("files")};
  for (const CheckpointFile& file : result.files)
    PG_CHECK(!file.name.empty() && file.name.find('/') == file.name.npos,
             "a data file is called \"", file.name, "\", which is not a name in its folder");
  return result;
}

/// Writes a manifest as JSON text.
/// throws: Error if the run's description is not UTF-8
std::string manifest_text(const Manifest& manifest) {
  const json all = {{"format", format_name},
                    {"version", format_version},
                    {"step", manifest.step},
                    {"files", manifest.files},
                    {"run", manifest.run}};
  try {
    return all.dump(2) + "\n";
  } catch (const json::exception&) {
    throw Error("checkpoint: the description of the run is not UTF-8");
  }
}

/// Names of the data files of the folder's checkpoint; none if the folder has no checkpoint.
std::set<std::string> committed_names(const fs::path& folder) {
  std::set<std::string> names;
  try {
    for (const CheckpointFile& file : read_manifest(folder).files) names.insert(file.name);
  } catch (const Error&) {
    // No manifest, or a damaged one, protects no file.
  }
  return names;
}

/// A name that the current checkpoint does not use, even if the same step is saved twice.
std::string fresh_name(const fs::path& folder, const std::string& stem, std::int64_t step) {
  const std::set<std::string> taken = committed_names(folder);
  std::string name = text(stem, "-", step, ".safetensors");
  if (taken.contains(name)) name = text(stem, "-", step, ".again.safetensors");
  return name;
}

/// Forces this file or folder to disk, so that it survives a power failure.
void sync_to_disk(const fs::path& path) {
  const format::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  PG_CHECK(file.number >= 0 && ::fsync(file.number) == 0, path.string(),
           ": can't be written to disk");
}

/// Removes data files that the manifest does not name, that is, files with names from fresh_name(),
/// with or without the .tmp of an unfinished file. A file that can't be removed only takes space.
void remove_leftovers(const fs::path& folder, const std::set<std::string>& keep) {
  static const std::regex data_file(R"([^-]*-[0-9]+(\.again)?\.safetensors(\.tmp)?)");
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    std::string name = file.path().filename().string();
    if (std::regex_match(name, data_file) && !keep.contains(name)) leftovers.push_back(file.path());
  }
  for (const fs::path& file : leftovers) fs::remove(file, ignored);
}

}  // namespace

fs::path checkpoint_of(const fs::path& run) {
  std::error_code ignored;
  return fs::exists(run / manifest_name, ignored) ? run : run / "checkpoint";
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  std::error_code ignored;
  PG_CHECK(fs::exists(path, ignored), folder.string(), " holds no checkpoint: it has no ",
           manifest_name, "; name the folder that a run saved to");
  const std::string bytes = read_file(path);
  try {
    return parse_manifest(bytes);
  } catch (const json::exception&) {
    throw Error(path.string() + " is damaged: it is not valid JSON");
  } catch (const Error& error) {
    throw Error(path.string() + " is damaged or not a checkpoint's manifest: " + error.what());
  }
}

CheckpointFile write_checkpoint_file(const fs::path& folder, const std::string& stem,
                                     std::int64_t step, const ParameterList& parameters,
                                     const FlatBuffers& buffers) {
  PG_CHECK(!stem.empty() && stem.find_first_of("-/") == stem.npos, "a checkpoint's file name \"",
           stem, "\" must not be empty, and must contain neither - nor /");
  PG_CHECK(step >= 0, "a checkpoint of step ", step, ": steps are numbered from 0");
  make_folder(folder);

  std::vector<std::byte> host;  // holds one tensor at a time
  std::vector<SafetensorsSource> tensors;
  for (const auto& [name, flat] : buffers) {
    check_buffer(parameters, flat, text('"', name, '"'));
    for (const Parameter& parameter : parameters) {
      Tensor part = flat.window(parameter.offset, parameter.shape);
      tensors.push_back({tensor_name(name, parameter.name), safetensors_dtype(part.dtype()),
                         part.shape(), [part, &host] {
                           host.resize(part.bytes());
                           part.backend().copy_to_host(part, host.data());
                           return std::span<const std::byte>(host);
                         }});
    }
  }
  CheckpointFile file{fresh_name(folder, stem, step)};
  fs::path path = folder / file.name;
  write_safetensors(path.string(), {{"step", std::to_string(step)}}, tensors);
  file.bytes = static_cast<std::int64_t>(fs::file_size(path));
  return file;
}

void commit_checkpoint(const fs::path& folder, std::int64_t step, const json& run,
                       const std::vector<CheckpointFile>& files) {
  std::set<std::string> names;
  for (const CheckpointFile& file : files)
    PG_CHECK(names.insert(file.name).second, "checkpoint: two files are called ", file.name);
  const fs::path manifest = folder / manifest_name, unfinished = folder / "manifest.json.new";
  write_file(unfinished, manifest_text({step, run, files}));
  sync_to_disk(unfinished);
  sync_to_disk(folder);  // names of data files must be on disk before the manifest that lists them
  std::error_code problem;
  fs::rename(unfinished, manifest, problem);
  PG_CHECK(!problem, "can't replace ", manifest.string(), ": ", problem.message());
  sync_to_disk(folder);
  remove_leftovers(folder, names);
}

}  // namespace paragrad::nn
