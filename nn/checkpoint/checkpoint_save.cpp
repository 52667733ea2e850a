// Saving a checkpoint: data files under new names, then the manifest in one atomic step.
// Not here: reading it (nn/checkpoint/checkpoint.cpp).
// Chapter 02.
#include <fcntl.h>
#include <unistd.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string_view>

#include "autograd/backend.h"
#include "nn/checkpoint/checkpoint.h"
#include "nn/checkpoint/checkpoint_manifest.h"
#include "nn/checkpoint/file.h"
#include "nn/checkpoint/safetensors_format.h"

namespace paragrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// Names of the data files that the folder's checkpoint is made of; none if it offers none.
std::set<std::string> committed_names(const fs::path& folder) {
  std::set<std::string> names;
  try {
    for (const CheckpointFile& file : read_manifest(folder).files) names.insert(file.name);
  } catch (const Error&) {
    // No manifest, or a damaged one, protects no file.
  }
  return names;
}

/// A name that the present checkpoint does not use: a step may be saved twice.
std::string fresh_name(const fs::path& folder, const std::string& stem, std::int64_t step) {
  const std::set<std::string> taken = committed_names(folder);
  std::string name = text(stem, "-", step, ".safetensors");
  if (taken.contains(name)) name = text(stem, "-", step, ".again.safetensors");
  return name;
}

/// Asks the disk to keep what was written to this file or folder, also through a power failure.
void sync_to_disk(const fs::path& path) {
  const format::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  PG_CHECK(file.number >= 0 && ::fsync(file.number) == 0, path.string(),
           ": can't be written to disk");
}

/// Whether a name is one that fresh_name() gives, perhaps with the .tmp of an unfinished file.
bool is_data_file(std::string_view name) {
  auto strip = [&name](std::string_view ending) {
    bool found = name.ends_with(ending);
    if (found) name.remove_suffix(ending.size());
    return found;
  };
  strip(".tmp");
  if (!strip(".safetensors")) return false;
  strip(".again");
  std::size_t dash = name.find('-');
  return dash != name.npos && dash + 1 < name.size() &&
         name.find_first_not_of("0123456789", dash + 1) == name.npos;
}

/// Removes data files that no manifest names. One that can't be removed only takes space.
void remove_leftovers(const fs::path& folder, const std::set<std::string>& keep) {
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    std::string name = file.path().filename().string();
    if (is_data_file(name) && !keep.contains(name)) leftovers.push_back(file.path());
  }
  for (const fs::path& file : leftovers) fs::remove(file, ignored);
}

}  // namespace

CheckpointFile write_checkpoint_file(const fs::path& folder, const std::string& stem,
                                     std::int64_t step, const ParameterList& parameters,
                                     const FlatBuffers& buffers) {
  PG_CHECK(!stem.empty() && stem.find_first_of("-/") == stem.npos, "a checkpoint's file name \"",
           stem, "\" must have letters, and neither - nor /");
  PG_CHECK(step >= 0, "a checkpoint of step ", step, ": steps count from 0");
  make_folder(folder);

  std::vector<std::byte> host;  // one tensor at a time
  std::vector<SafetensorsSource> tensors;
  for (const auto& [name, flat] : buffers) {
    PG_CHECK(flat.defined() && flat.numel() == parameters.numel(), "checkpoint: the model has ",
             parameters.numel(), " parameters, the buffer \"", name, "\" is ", flat);
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
  sync_to_disk(folder);  // the data files' names, before the manifest that relies on them
  std::error_code problem;
  fs::rename(unfinished, manifest, problem);
  PG_CHECK(!problem, "can't replace ", manifest.string(), ": ", problem.message());
  sync_to_disk(folder);
  remove_leftovers(folder, names);
}

void save_checkpoint(const fs::path& folder, std::int64_t step, const json& run,
                     const ParameterList& parameters, const Tensor& weights,
                     const FlatBuffers& optimizer_state) {
  std::vector<CheckpointFile> files;
  files.push_back(write_checkpoint_file(folder, "model", step, parameters, {{"", weights}}));
  if (!optimizer_state.empty())
    files.push_back(write_checkpoint_file(folder, "optimizer", step, parameters, optimizer_state));
  commit_checkpoint(folder, step, run, files);
}

}  // namespace paragrad::nn
