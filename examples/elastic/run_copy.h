// A run's folder in memory, those that are left of runs which ended without a copy, and copies on
// disk. A copy is complete and intact before it becomes the newest; as many checkpoints stay
// as the run's --keep says. Files that others put there meanwhile stay, too. Not here: what is
// written there (launcher.h). Chapter 15.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "parallel/observers/metric_files.h"
#include "parallel/session/agreement.h"

namespace plangrad::examples {

/// The update of the newest intact checkpoint of a run; 0: there is none.
int saved_in(const std::filesystem::path& run);

/// The last update that is saved, or that rank 0 has written a line of.
int done_in(const std::filesystem::path& run);

/// Whether a run's folder has room for another save beside the newest one, if there is one.
bool has_room(const std::filesystem::path& run);

/// Copies a run's folder to another one again and again.
class RunCopy {
 public:
  /// minutes: between copies; last: the update of `to` that the run continues from, -1: its newest;
  /// lock: of `to`; if it is lost, nothing is copied; null: copies need none
  RunCopy(std::filesystem::path from, std::filesystem::path to, double minutes, int last = -1,
          std::shared_ptr<parallel::FolderLock> lock = nullptr);

  /// Copies the newest state, if there is one. Returns whether all of it is on disk now; if not,
  /// problem() says why. A copy that fails leaves those before.
  bool copy();
  const std::string& problem() const { return problem_; }
  /// Copies if it is time to, and a second after a checkpoint could not be copied. Tells of the
  /// second failure.
  void refresh();

  bool holds_run() const { return !files_.empty(); }

 private:
  using Clock = std::chrono::steady_clock;
  void copy_all();
  void write(const std::filesystem::path& path,
             const std::function<void(const std::filesystem::path&)>& fill);
  void make_way(const std::filesystem::path& path) const;
  void make_folder(const std::filesystem::path& path) const;
  void remove_own(const std::set<std::filesystem::path>& files,
                  const std::set<std::filesystem::path>& kept = {});
  void copy_rest();
  void commit(const std::string& manifest);
  void keep_before(std::int64_t step, int count);

  std::filesystem::path from_, to_;
  std::shared_ptr<parallel::FolderLock> lock_;
  int last_;  // later updates give way to the first copy; -1: none do
  std::chrono::duration<double> every_;
  Clock::time_point next_;
  std::string problem_;                         // of the last copy
  int failures_ = 0;                            // of refresh(), in a row
  std::set<std::filesystem::path> files_;       // of the last copy
  std::set<std::filesystem::path> new_, made_;  // of the copy under way; made_: with a new name
  parallel::OwnFiles own_;                      // as the copy left them
};

/// A new folder in memory, which is locked as long as the object lives.
class MemoryFolder {
 public:
  /// throws: Error if it can't be made in `parent`
  explicit MemoryFolder(const std::filesystem::path& parent);
  /// Removes the folder, unless it holds a checkpoint that is not on disk.
  ~MemoryFolder();
  MemoryFolder(const MemoryFolder&) = delete;
  MemoryFolder& operator=(const MemoryFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void on_disk() { on_disk_ = true; }  ///< all of it

 private:
  std::filesystem::path path_;
  nn::Descriptor lock_;
  bool on_disk_ = false;
};

/// Tells of this user's folders in `parent` that no process holds.
void name_left_over(const std::filesystem::path& parent, const std::filesystem::path& resumed);

}  // namespace plangrad::examples
