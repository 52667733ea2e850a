// Files are copied while they are open, so the run may save and remove them meanwhile; the manifest
// comes last. The system locks a folder (flock), so that of a process that was killed is free.
// Chapter 15.
#include "examples/elastic/run_copy.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <nlohmann/json.hpp>

#include "examples/programs/program.h"
#include "examples/programs/run_folder.h"
#include "nn/checkpoint/checkpoint.h"

namespace plangrad::examples {

namespace fs = std::filesystem;

namespace {

/// The newest checkpoint and the bytes of its manifest, whatever the run saves meanwhile.
/// throws: Error if no checkpoint is intact, or the run commits one at this moment
std::pair<std::shared_ptr<const nn::Checkpoint>, std::string> open_newest(const fs::path& folder) {
  const nn::IntactCheckpoint found = nn::find_intact(folder);
  const std::string bytes = nn::read_file(folder / found.manifest);
  PG_CHECK(nn::checksum_of(bytes) == found.checkpoint->manifest().checksum,
           "the run saves at this moment");
  return {found.checkpoint, bytes};
}

void write_bytes(const fs::path& path, const nn::SafetensorsFile& file) {
  const nn::Descriptor made = nn::create_file(path);
  nn::write_all(made, path, file.header());
  for (const nn::SafetensorsEntry& entry : file.entries())
    entry.read_parts([&](nn::format::Bytes part) { nn::write_all(made, path, part); });
}

/// Whether a file grows by lines, of which the last one may be under way, or not fit.
bool has_lines(const fs::path& name) {
  const std::string all = name.filename().string();
  return all.starts_with("metrics.jsonl") || all.starts_with("metrics.csv");
}

/// Adds the files of a folder's checkpoints, and the TensorBoard files beside it that they name. A
/// damaged one is left as it is. `users`: those that a user has renamed, and not those of the run
void add_checkpoints(std::set<fs::path>& files, const fs::path& folder, bool users) {
  const nlohmann::json::json_pointer events("/metrics/events");
  for (const std::string& name : nn::manifests_of(folder)) try {
      const nn::Checkpoint checkpoint(folder, name);
      const std::string earlier = text("manifest-", checkpoint.step(), ".json");
      if (users != (name != nn::manifest_name && name != earlier)) continue;
      for (const nn::SafetensorsFile& file : checkpoint.files())
        files.insert(folder / fs::path(file.path()).filename());
      files.insert(folder / name);
      for (const auto& file : checkpoint.run().value(events, nlohmann::json::array()))
        if (parallel::is_event_file(file.get<std::string>()))
          files.insert(folder.parent_path() / file.get<std::string>());
    } catch (const std::exception&) {
    }
}

}  // namespace

int saved_in(const fs::path& run) try {
  return static_cast<int>(nn::find_intact(run / "checkpoint").checkpoint->step());
} catch (const autograd::Error&) {
  return 0;
}

int done_in(const fs::path& run) {
  int done = saved_in(run);
  for (const std::string& name : {std::string("metrics.jsonl"), text("metrics.jsonl", nn::partial)})
    parallel::read_metrics(run / name, [&](const nlohmann::json& line) {
      if (line.contains("loss")) done = std::max(done, line["step"].get<int>());
    });
  return done;
}

bool has_room(const fs::path& run) {
  if (saved_in(run) == 0) return true;
  const auto newest = nn::find_intact(run / "checkpoint").checkpoint;
  std::uintmax_t bytes = 0;
  for (const nn::SafetensorsFile& file : newest->files()) bytes += fs::file_size(file.path());
  return fs::space(run / "checkpoint").available >= bytes;
}

RunCopy::RunCopy(fs::path from, fs::path to, double minutes, int last,
                 std::shared_ptr<parallel::FolderLock> lock)
    : from_(std::move(from)),
      to_(std::move(to)),
      lock_(std::move(lock)),
      last_(last),
      every_(60 * minutes),
      next_(Clock::now() + std::chrono::duration_cast<Clock::duration>(every_)) {
  add_checkpoints(files_, to_ / "checkpoint", /*users*/ false);
  std::error_code gone;
  fs::recursive_directory_iterator each(to_, fs::directory_options::skip_permission_denied, gone);
  for (; !gone && each != end(each); each.increment(gone)) own_.note(each->path());
}

/// Renames what is at this path to a free name beside it, unless the copy wrote it. A folder stays,
/// and the write that follows fails.
void RunCopy::make_way(const fs::path& path) const {
  if (fs::is_directory(fs::symlink_status(path))) return;
  const std::string changed = own_.make_way(path);
  if (!changed.empty()) tell("elastic: others have changed the run's files" + changed);
}

void RunCopy::make_folder(const fs::path& path) const {
  make_way(path);
  nn::make_folder(path);
}

/// Writes a file of the copy, which is complete and on disk before it has its name.
void RunCopy::write(const fs::path& path, const std::function<void(const fs::path&)>& fill) {
  const fs::path unfinished = path.string() + nn::partial;
  ::unlink(unfinished.c_str());  // a link would lead elsewhere
  try {
    fill(unfinished);
    nn::sync_to_disk(unfinished);
    make_way(path);
    if (!fs::exists(path)) made_.insert(path);
    fs::rename(unfinished, path);
  } catch (const std::exception&) {
    ::unlink(unfinished.c_str());
    throw;
  }
  own_.note(path);
  new_.insert(path);
}

/// Removes files that are as the copy left them, except those in `kept`.
void RunCopy::remove_own(const std::set<fs::path>& files, const std::set<fs::path>& kept) {
  std::error_code ignored;
  for (const fs::path& file : files)
    if (!kept.contains(file) && own_.has(file)) fs::remove(file, ignored);
}

void RunCopy::refresh() {
  constexpr int told = 2;  // the first failure may be that the run saved at this moment
  if (Clock::now() <= next_) return;
  failures_ = copy() ? 0 : failures_ + 1;
  if (failures_ == told)
    tell(text("elastic: the state in memory can't be copied whole to ", to_.string(), ": ",
              problem_, "; it is tried again"));
}

bool RunCopy::copy() try {
  new_.clear();
  made_.clear();
  problem_.clear();
  if (lock_) lock_->check_here();
  if (!nn::manifests_of(from_ / "checkpoint").empty()) {
    copy_all();
    std::set<fs::path> stay = new_;
    add_checkpoints(stay, to_ / "checkpoint", /*users*/ true);
    remove_own(files_, stay);
    files_ = std::move(new_);
    last_ = -1;
  }
  next_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(every_);
  return problem_.empty();
} catch (const std::exception& error) {
  remove_own(made_);
  problem_ = error.what();
  next_ = Clock::now() + std::chrono::seconds(1);
  return false;
}

void RunCopy::copy_all() {
  const auto [newest, manifest] = open_newest(from_ / "checkpoint");
  const fs::path folder = to_ / "checkpoint";
  make_folder(folder);
  for (const nn::SafetensorsFile& file : newest->files())
    write(folder / fs::path(file.path()).filename(),
          [&](const fs::path& path) { write_bytes(path, file); });
  copy_rest();
  commit(manifest);
}

/// Copies what is beside the checkpoint, as far as it is still there. Of lines, whole ones. What
/// can't be written there, as a folder has its name, holds no checkpoint back.
void RunCopy::copy_rest() {
  std::error_code gone;
  fs::recursive_directory_iterator each(from_, fs::directory_options::skip_permission_denied, gone);
  for (; !gone && each != end(each); each.increment(gone)) {
    const fs::path name = fs::relative(each->path(), from_);
    const bool is_apart = name == "checkpoint" || name == "diverged";
    if (is_apart) each.disable_recursion_pending();
    if (is_apart || name == "plangrad.lock") continue;
    try {
      if (each->is_directory(gone)) make_folder(to_ / name);
      if (!each->is_regular_file(gone)) continue;
      write(to_ / name, [&](const fs::path& path) {
        fs::copy_file(each->path(), path, fs::copy_options::overwrite_existing);
        if (has_lines(name))
          fs::resize_file(path, nn::read_file(path, nn::most::data).rfind('\n') + 1);
      });
    } catch (const std::exception& error) {
      if (!fs::exists(each->path(), gone)) continue;
      new_.insert(to_ / name);  // the copy before stays
      problem_ = text((to_ / name).string(),
                      " can't be written, but the checkpoint is copied: ", error.what(),
                      "; move away what is in its place");
    }
  }
}

/// Makes the files the folder's newest checkpoint, if all their bytes are right. Of those before,
/// as many stay as the run's --keep says.
void RunCopy::commit(const std::string& manifest) {
  const fs::path folder = to_ / "checkpoint", newest = folder / nn::manifest_name;
  write(newest, [&](const fs::path& path) {
    nn::write_all(nn::create_file(path), path, std::as_bytes(std::span(manifest)));
    nn::sync_to_disk(folder);
    const nn::Checkpoint copied(folder, path.filename().string());
    copied.verify();
    keep_before(copied.step(), copied.run().at("flags").at("--keep").get<int>() - 1);
  });
  nn::sync_to_disk(folder);
}

/// Keeps the newest copies of states before this step, with names of their own.
void RunCopy::keep_before(std::int64_t step, int count) {
  const fs::path folder = to_ / "checkpoint";
  for (const std::string& name : nn::manifests_of(folder)) try {
      if (count == 0 || !files_.contains(folder / name)) continue;
      const nn::Checkpoint before(folder, name);
      if (before.step() >= step || (last_ >= 0 && before.step() > last_)) continue;
      const fs::path own = folder / text("manifest-", before.step(), ".json");
      if (name == nn::manifest_name)
        write(own, [&](const fs::path& path) { fs::copy_file(folder / name, path); });
      new_.insert(own);
      for (const nn::SafetensorsFile& file : before.files())
        new_.insert(folder / fs::path(file.path()).filename());
      --count;
    } catch (const autograd::Error&) {  // a damaged one does not stay
    }
}

namespace {

constexpr const char* prefix = "plangrad-elastic-";

/// Makes a folder with a name that is not looked for: it is not locked yet.
std::string new_folder(const fs::path& parent) {
  std::string name = (parent / ".").string() + prefix + "XXXXXX";
  PG_CHECK(::mkdtemp(name.data()), "can't make a folder like ", name, ": ", nn::system_message(),
           "; name a folder in memory with --memory");
  return name;
}

int opened_folder(const fs::path& folder) {
  return ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

}  // namespace

MemoryFolder::MemoryFolder(const fs::path& parent)
    : path_(new_folder(parent)), lock_(opened_folder(path_)) {
  ::flock(lock_.number, LOCK_EX);
  const fs::path hidden = path_;
  path_.replace_filename(path_.filename().string().substr(1));
  fs::rename(hidden, path_);
}

MemoryFolder::~MemoryFolder() {
  std::error_code ignored;
  if (on_disk_ || nn::manifests_of(path_ / "checkpoint").empty()) fs::remove_all(path_, ignored);
}

void name_left_over(const fs::path& parent, const fs::path& resumed) {
  std::error_code problem;
  for (const fs::directory_entry& entry : fs::directory_iterator(parent, problem)) {
    struct stat found = {};
    const std::string path = entry.path().string();
    const nn::Descriptor folder(
        entry.path().filename().string().starts_with(prefix) ? opened_folder(path) : -1);
    const bool is_left = folder.number >= 0 && ::fstat(folder.number, &found) == 0 &&
                         found.st_uid == ::getuid() && path != resumed &&
                         ::flock(folder.number, LOCK_EX | LOCK_NB) == 0 &&
                         fs::exists(path, problem);  // not removed meanwhile
    if (!is_left) continue;
    const int saved = saved_in(path);
    const std::string go_on =
        text("continue it after update ", saved, " with --resume ", path, " and an --out; later ");
    tell(text("elastic: ", path, " is left of a run that was killed or could not be copied; ",
              saved > 0 ? go_on : "", "remove it with rm -r ", path));
  }
}

}  // namespace plangrad::examples
