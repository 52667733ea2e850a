// Saves a checkpoint: data files under new names, then the manifest in one atomic step; afterwards
// removes what is not needed any more. Not here: reading data files (checkpoint.cpp), and the text
// of the manifest (checkpoint_manifest.cpp). Chapter 02.
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "autograd/backend.h"
#include "autograd/version.h"
#include "nn/checkpoint/checkpoint.h"

namespace plangrad::nn {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// The checkpoints of a folder that can be read, by the names of their manifests.
using Manifests = std::map<std::string, Manifest>;

Manifests readable_manifests(const fs::path& folder) {
  Manifests found;
  for (const std::string& name : manifests_of(folder)) try {
      found[name] = read_manifest(folder, name);
    } catch (const Error&) {  // damaged, of a newer format, or a user's own file
    }
  return found;
}

/// The name of the manifest of a step, a number, once a newer one has taken its place.
std::string earlier_name(const auto& step) { return text("manifest-", step, ".json"); }

std::set<std::string> names_in(const Manifests& manifests) {
  std::set<std::string> names;
  for (const auto& [name, manifest] : manifests)
    for (const CheckpointFile& file : manifest.files) names.insert(file.name);
  return names;
}

/// Whether a step's manifest is there, but can't be read; what files it lists is not known.
bool is_unreadable(const fs::path& folder, const auto& step) {
  const std::string name = earlier_name(step);
  const bool is_there = std::ranges::count(manifests_of(folder), name) > 0;
  return is_there && !readable_manifests(folder).contains(name);
}

/// A name that no checkpoint of the folder uses, even if the same step is saved twice.
std::string fresh_name(const fs::path& folder, const std::string& stem, std::int64_t step) {
  const std::set<std::string> taken = names_in(readable_manifests(folder));
  std::string name = text(stem, "-", step);
  if (is_unreadable(folder, step)) name += ".again";
  while (taken.contains(name + ".safetensors")) name += ".again";
  return name + ".safetensors";
}

/// The metadata of a data file that says its own name: a copy that a user makes has another one.
constexpr const char* own_name = "file";

/// Whether a save wrote this file, finished or not: its header, which is written first, says so.
bool has_own_name(const fs::path& path, const std::string& name) {
  std::string start(4096, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(start.size()));
  return start.find(text('"', own_name, "\":\"", name, '"')) != start.npos;
}

/// Removes a file or link; one that can't be removed only takes space.
void remove_file(const fs::path& path) {
  std::error_code ignored;
  fs::remove(path, ignored);
}

/// Removes data files that are not to stay: those in `known`, and those of interrupted saves. Files
/// of a step whose manifest is there, but can't be read, stay.
void remove_leftovers(const fs::path& folder, const std::set<std::string>& known,
                      const std::set<std::string>& stay) {
  static const std::regex data_file(
      R"([^-]*-([0-9]+)(\.again)*\.safetensors(\.tmp|\.plangrad-partial)?)");
  std::error_code ignored;
  std::vector<fs::path> leftovers;
  for (const fs::directory_entry& file : fs::directory_iterator(folder, ignored)) {
    std::string name = file.path().filename().string();
    std::smatch parts;
    if (!std::regex_match(name, parts, data_file) || stay.contains(name)) continue;
    if (!known.contains(name) && is_unreadable(folder, parts.str(1))) continue;
    if (known.contains(name)) leftovers.push_back(file.path());
    if (!file.is_regular_file(ignored) || file.is_symlink(ignored)) continue;
    name.resize(name.rfind(".safetensors") + 12);
    if (has_own_name(file.path(), name)) leftovers.push_back(file.path());
  }
  std::ranges::for_each(leftovers, remove_file);
}

/// The manifests of `earlier` that stay beside that of `mark`; the newest of them may have to get a
/// name of its own. A user's copy, under a name that no save gives it, stays in any case.
Manifests staying(const Manifests& earlier, const SaveMark& mark, const Retention& retention) {
  std::vector<std::pair<std::int64_t, std::string>> found;
  for (const auto& [name, manifest] : earlier)
    if (manifest.step < mark.step && manifest.step <= retention.last &&
        (manifest.run_id == mark.run_id || manifest.run_id.empty()))
      found.emplace_back(manifest.step, name);
  std::ranges::sort(found, std::greater<>());
  Manifests result;
  for (const auto& [step, name] : found)
    if (static_cast<int>(result.size()) < retention.count - 1) result[name] = earlier.at(name);
  for (const auto& [name, manifest] : earlier)
    if (name != manifest_name && name != earlier_name(manifest.step)) result[name] = manifest;
  return result;
}

/// Checks that a file is here as its writer, perhaps on another host, describes it.
void check_written(const fs::path& folder, const CheckpointFile& file) {
  const fs::path path = folder / file.name;
  const std::string title = text("the checkpoint ", folder.string(), " that is being saved");
  std::error_code problem;
  const auto found = fs::file_size(path, problem);
  PG_CHECK(!problem, title, " lacks ", file.name, ", which a rank has written: it was removed, ",
           "or the hosts do not share the folder (name one that they share with --out)");
  PG_CHECK(static_cast<std::int64_t>(found) == file.bytes, title, " is damaged: ", file.name,
           " has ", found, " bytes, its writer says ", file.bytes);
  check_checksums(title, SafetensorsFile(path.string()), file.checksums, /*all*/ true);
}

/// Writes a file that is on disk on return.
void write_synced(const fs::path& path, const std::string& bytes) {
  write_file(path, bytes);
  sync_to_disk(path);
}

/// One tensor for each buffer and parameter. `host` holds one tensor at a time.
std::vector<SafetensorsSource> sources_of(const ParameterList& parameters,
                                          const FlatBuffers& buffers,
                                          std::vector<std::byte>& host) {
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
  return tensors;
}

std::map<std::string, std::string> metadata_of(const CheckpointFile& file, const SaveMark& mark) {
  return {{own_name, file.name}, {"run", mark.run_id}, {"step", std::to_string(mark.step)}};
}

/// The file of a stem, not yet written.
CheckpointFile named_file(const fs::path& folder, const std::string& stem, const SaveMark& mark) {
  PG_CHECK(!stem.empty() && stem.find_first_of("-/") == stem.npos, "a checkpoint's file name \"",
           stem, "\" must not be empty, and must contain neither - nor /");
  PG_CHECK(mark.step >= 0, "a checkpoint of step ", mark.step, ": steps are numbered from 0");
  return {fresh_name(folder, stem, mark.step)};
}

}  // namespace

CheckpointFile describe_checkpoint_file(const fs::path& folder, const std::string& stem,
                                        const SaveMark& mark, const ParameterList& parameters,
                                        const FlatBuffers& buffers) {
  CheckpointFile file = named_file(folder, stem, mark);
  remove_file(folder / file.name);  // an interrupted save can have left one
  std::vector<std::byte> host;
  std::tie(file.checksums, file.bytes) = describe_safetensors(
      file.name, metadata_of(file, mark), sources_of(parameters, buffers, host));
  return file;
}

CheckpointFile write_checkpoint_file(const fs::path& folder, const std::string& stem,
                                     const SaveMark& mark, const ParameterList& parameters,
                                     const FlatBuffers& buffers) {
  CheckpointFile file = named_file(folder, stem, mark);
  try {
    make_folder(folder);
    std::vector<std::byte> host;
    const std::vector<SafetensorsSource> tensors = sources_of(parameters, buffers, host);
    const fs::path path = folder / file.name;
    file.checksums = write_safetensors(path.string(), metadata_of(file, mark), tensors);
    file.bytes = static_cast<std::int64_t>(fs::file_size(path));
  } catch (const std::exception& error) {
    file.failure = error.what();
  }
  return file;
}

WriteFile write_at_once(fs::path folder, SaveMark mark, std::vector<CheckpointFile>& files) {
  return [folder = std::move(folder), mark = std::move(mark), &files](
             const std::string& stem, const ParameterList& parameters, const FlatBuffers& buffers) {
    files.push_back(write_checkpoint_file(folder, stem, mark, parameters, buffers));
  };
}

/// Makes the files of a save the folder's newest checkpoint.
static void commit_files(const fs::path& folder, const SaveMark& mark, const json& run,
                         const std::vector<CheckpointFile>& files, const Retention& retention) {
  std::set<std::string> names;
  for (const CheckpointFile& file : files) PG_CHECK(file.failure.empty(), file.failure);
  for (const CheckpointFile& file : files)
    PG_CHECK(names.insert(file.name).second, "checkpoint: two files are called ", file.name);
  for (const CheckpointFile& file : files) check_written(folder, file);
  const Manifests earlier = readable_manifests(folder);
  if (const auto newest = earlier.find(manifest_name); newest != earlier.end())
    PG_CHECK(newest->second.run_id != mark.run_id ||
                 newest->second.step <= std::max(mark.step, retention.given_up),
             folder.string(), " has update ", newest->second.step,
             " of this run by now, so another program writes there, too; update ", mark.step,
             " does not replace it");
  const fs::path manifest = folder / manifest_name, unfinished = manifest.string() + partial;
  write_synced(unfinished, manifest_text({mark.step, mark.run_id, build(),
                                          std::make_shared<json>(run), files}));

  // The manifest that will be replaced gets a second name, if its checkpoint is to stay.
  Manifests stay = staying(earlier, mark, retention);
  if (auto newest = stay.extract(manifest_name)) {
    newest.key() = earlier_name(newest.mapped().step);
    write_synced(folder / newest.key(), read_file(manifest));
    stay.insert(std::move(newest));
  }
  sync_to_disk(folder);  // names of data files must be on disk before the manifest that lists them
  std::error_code problem;
  fs::rename(unfinished, manifest, problem);
  PG_CHECK(!problem, "can't replace ", manifest.string(), ": ", problem.message());
  sync_to_disk(folder);

  for (const auto& [name, manifest] : earlier)
    if (name != manifest_name && !stay.contains(name)) remove_file(folder / name);
  names.merge(names_in(stay));
  remove_leftovers(folder, names_in(earlier), names);
}

/// The room that a checkpoint takes, with that of a block or two for each file.
static std::uintmax_t size_on_disk(const Manifest& manifest) {
  constexpr std::uintmax_t blocks = 16384;
  std::uintmax_t bytes = blocks;
  for (const CheckpointFile& file : manifest.files) bytes += file.bytes + blocks;
  return bytes;
}

static bool is_intact(const fs::path& folder, const std::string& manifest) try {
  Checkpoint(folder, manifest).verify();
  return true;
} catch (const Error&) {
  return false;
}

std::string make_room(const fs::path& folder, const std::string& run_id) {
  Manifests all = readable_manifests(folder);
  auto oldest = all.end();
  for (auto each = all.begin(); each != all.end(); ++each)
    if (each->second.run_id == run_id &&
        (oldest == all.end() || each->second.step < oldest->second.step))
      oldest = each;
  if (oldest == all.end() || oldest->first == manifest_name || !all.contains(manifest_name))
    return "";
  std::error_code problem;
  const std::uintmax_t available = fs::space(folder, problem).available;
  const std::uintmax_t needed = size_on_disk(all[manifest_name]);
  if (problem || available >= needed || available + size_on_disk(oldest->second) < needed ||
      !is_intact(folder, manifest_name))
    return "";
  const auto given_up = all.extract(oldest);
  remove_file(folder / given_up.key());
  remove_leftovers(folder, names_in({{given_up.key(), given_up.mapped()}}), names_in(all));
  return text(folder.string(), " has room for ", available, " bytes more, and a checkpoint takes ",
              needed, ": the one of step ", given_up.mapped().step, " is given up for a new one");
}

void commit_checkpoint(const fs::path& folder, const SaveMark& mark, const json& run,
                       const std::vector<CheckpointFile>& files, const Retention& retention) {
  try {
    commit_files(folder, mark, run, files, retention);
  } catch (...) {
    const std::set<std::string> earlier = names_in(readable_manifests(folder));
    for (const CheckpointFile& file : files)
      if (!file.name.empty() && !earlier.contains(file.name)) remove_file(folder / file.name);
    throw;
  }
}

}  // namespace plangrad::nn
